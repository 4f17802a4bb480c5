dnl
dnl SPDX-License-Identifier: BSD-3-Clause
dnl See file LICENSE for terms.
dnl
dnl OVERLAY_FUZZ: the compilers for the fuzz targets, which must have libFuzzer.
dnl Substitutes FUZZ_CC and FUZZ_CXX; the conditional HAVE_LIBFUZZER is false
dnl without them. A build that has a sanitizer of another compiler in its UCX
dnl libraries cannot have fuzz targets.
dnl
AC_DEFUN([OVERLAY_FUZZ], [
    AC_REQUIRE([OVERLAY_SANITIZERS])
    AC_CHECK_PROGS([FUZZ_CC], [clang])
    AC_CHECK_PROGS([FUZZ_CXX], [clang++])
    have_libfuzzer=no
    AS_IF([test -n "$FUZZ_CC" && test -n "$FUZZ_CXX" && test -z "$SANITIZER"],
          [AC_MSG_CHECKING([whether $FUZZ_CXX has libFuzzer])
           cat >conftest.cc <<'END'
#include <cstddef>
#include <cstdint>
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return (size > 0) && (data@<:@0@:>@ == 1) ? -1 : 0;
}
END
           AS_IF([$FUZZ_CXX -fsanitize=fuzzer,address -o conftest.fuzz \
                      conftest.cc 2>&AS_MESSAGE_LOG_FD],
                 [have_libfuzzer=yes])
           rm -f conftest.cc conftest.fuzz
           AC_MSG_RESULT([$have_libfuzzer])])
    AM_CONDITIONAL([HAVE_LIBFUZZER], [test $have_libfuzzer = yes])
])
