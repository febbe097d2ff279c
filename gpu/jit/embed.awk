# Headers as C strings, for nvrtc.c: {"gpu/cell/words.cuh", "..."}, and so on.  -v root=: what the names of
# the files begin with, and those of the includes do not.
FNR == 1 {
    if (NR > 1)
        print "},"
    printf "{\"%s\",\n", substr(FILENAME, length(root) + 2)
}
{
    gsub(/\\/, "&&")
    gsub(/"/, "\\\"")
    print "\"" $0 "\\n\""
}
END {
    print "},"
}
