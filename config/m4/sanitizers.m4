dnl
dnl SPDX-License-Identifier: BSD-3-Clause
dnl See file LICENSE for terms.
dnl
dnl OVERLAY_SANITIZERS: --enable-asan, --enable-tsan. Substitutes SANITIZER
dnl (address, thread or nothing) and adds to the compiler's and linker's flags.
dnl The same is done for UCX, by buildlib/ucx-build.
dnl
AC_DEFUN([OVERLAY_SANITIZERS], [
    AC_ARG_ENABLE([asan],
        [AS_HELP_STRING([--enable-asan], [build everything, UCX included, with
                                          AddressSanitizer])])
    AC_ARG_ENABLE([tsan],
        [AS_HELP_STRING([--enable-tsan], [build everything, UCX included, with
                                          ThreadSanitizer])])

    SANITIZER=
    AS_IF([test "x$enable_asan" = xyes], [SANITIZER=address])
    AS_IF([test "x$enable_tsan" = xyes],
          [AS_IF([test -n "$SANITIZER"],
                 [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each
                                other])])
           SANITIZER=thread])
    AS_IF([test -n "$SANITIZER"],
          [sanitizer_flags="-fsanitize=$SANITIZER -fno-omit-frame-pointer"
           CFLAGS="$CFLAGS $sanitizer_flags"
           CXXFLAGS="$CXXFLAGS $sanitizer_flags"
           LDFLAGS="$LDFLAGS $sanitizer_flags"])
    AC_SUBST([SANITIZER])
    AM_CONDITIONAL([SANITIZED], [test -n "$SANITIZER"])
])
