"""Registers the plug-in once for all tests."""

import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import models  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def registered():
    onnxruntime.register_execution_provider_library("ecornn", models.plugin())
    assert len(models.devices()) == 1
    yield
    onnxruntime.unregister_execution_provider_library("ecornn")
    assert not models.devices()
