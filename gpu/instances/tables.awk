# The sources of the kernels that the module has for each type of rows, by their names,
# table_FAMILY_ROWS.cu.  Other words of a name define macros: table_fused_step_f32_fast.cu is
# compiled with ECO_ROWS_F32 and ECO_FAST.
#     awk -f tables.awk table_fused_step_f32_fast.cu
# A source has the kernels of one family and one type, so that make compiles them side by side.

# includes: the header that has the kernels; declares: their table, as gpu/kernels.h and
# args.h of attention/ and matrix/ say; macros: what else its source defines
function family(name, includes, declares, macros) {
    header[name] = includes
    table[name] = declares
    more[name] = macros
}

BEGIN {
    family("attention", "attention/kernels.cuh",
           "struct eco_gpu_attention_kernels eco_gpu_attention_ROWS = ATTENTION_KERNELS")
    family("fused_step", "fused_step/kernel_table.cuh",
           "struct eco_fused_kernel *const eco_fused_ROWS = fused_kernels")
    family("grouped", "gemm/grouped/kernel.cuh",
           "void *const *const eco_grouped_ROWS = grouped_kernels")
    family("matrix", "matrix/kernels.cuh",
           "struct eco_gpu_matrix_kernels eco_gpu_matrix_ROWS = MATRIX_KERNELS")
    family("stages", "cell/stages.cuh", "struct eco_stage_kernels eco_stages_ROWS = STAGE_KERNELS")
    family("wide_step", "wide_step/kernel_table.cuh",
           "struct eco_wide_kernel *const eco_wide_ROWS = wide_kernels", "#define ECO_QUICK 1")

    name = ARGV[1]
    sub(/.*\/table_/, "", name)
    sub(/\.cu$/, "", name)
    match(name, /_b?f[136][246].*$/)
    rows = substr(name, RSTART + 1)
    name = substr(name, 1, RSTART - 1)
    if (!(name in table)) {
        print ARGV[1] ": must be table_FAMILY_ROWS.cu" > "/dev/stderr"
        exit 1
    }
    n = split(rows, word, "_")
    print "/* Printed by tables.awk. */\n#define ECO_ROWS_" toupper(word[1]) " 1"
    for (i = 2; i <= n; i++)
        print "#define ECO_" toupper(word[i]) " 1"
    if (more[name] != "")
        print more[name]
    sub(/ROWS/, rows, table[name])
    print "#include \"gpu/" header[name] "\"\nconst " table[name] ";"
    exit 0
}
