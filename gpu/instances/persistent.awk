# The persistent kernels that come with the module, by the names of their sources,
# persistent_WAY_KIND_CELL.cu:
#     awk -f persistent.awk NAME...            a list of them for C
#     awk -v source=1 -f persistent.awk NAME   the source of that name
# A source has the kernels of one way, kind and cell, so that make compiles them side by side.

function in_c(name) {
    gsub(/-/, "_", name)
    return name
}

# way, kind, cell
function read(name,   n, i, word) {
    sub(/.*\//, "", name)
    sub(/\.cu$/, "", name)
    symbol = "eco_" in_c(name)
    n = split(name, word, "_")
    way = word[2]
    cell = word[n]
    kind = word[3]
    for (i = 4; i < n; i++)
        kind = kind "_" word[i]
    if (kind in number && (way == "forward" || way == "backward"))
        return
    print name ": must be persistent_WAY_KIND_CELL" > "/dev/stderr"
    exit 1
}

function print_source(   n, i, macro) {
    n = split(macros[kind], macro, " ")
    for (i = 1; i <= n; i++)
        print "#define ECO_" macro[i] " 1"
    print "#define PERSISTENT_BACKWARD " (way == "backward")
    print "#include \"gpu/persistent/kernels.cuh\""
    print "extern \"C\" const void *const " symbol "[ECO_PERSISTENT_SHAPES] ="
    print "    CELLS_OF_" in_c(cell) "(PERSISTENT_KERNELS);"
}

BEGIN {
    # as eco_persistent_kinds (persistent/requirements.c) says
    number["bf16"] = "ECO_BF16_IN_BF16"
    number["f16"] = "ECO_F16_IN_F16"
    number["f32"] = "ECO_F32_IN_F16"
    number["f32_fast"] = "ECO_F32_IN_SCALED_F16"
    number["f32_pair"] = "ECO_F32_IN_PAIR"
    number["f32_scaled"] = "ECO_F32_IN_SCALED_PAIR"
    macros["bf16"] = "ROWS_BF16 OPERAND_BF16 QUICK"
    macros["f16"] = "ROWS_F16 OPERAND_F16 QUICK"
    macros["f32"] = "ROWS_F32 OPERAND_F16 QUICK"
    macros["f32_fast"] = macros["f32"] " SCALED"
    macros["f32_pair"] = "ROWS_F32 OPERAND_PAIR"
    macros["f32_scaled"] = macros["f32_pair"] " SCALED"

    print "/* Printed by persistent.awk. */"
    for (k = 1; k < ARGC; k++) {
        read(ARGV[k])
        if (source)
            print_source()
        else
            print "INSTANCE(" symbol ", " number[kind] ", " (way == "backward") ", \"" cell "\")"
    }
    exit 0
}
