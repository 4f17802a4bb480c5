dnl
dnl SPDX-License-Identifier: BSD-3-Clause
dnl See file LICENSE for terms.
dnl
dnl OVERLAY_ROCM: --with-rocm. Sets and substitutes ROCM_DIR and ROCM_CPPFLAGS.
dnl
dnl AMD's own packages put everything below /opt/rocm, the distribution's into
dnl the system's folders.
dnl
AC_DEFUN([OVERLAY_ROCM], [
    AC_ARG_WITH([rocm],
        [AS_HELP_STRING([--with-rocm=DIR],
            [where ROCm is (default: /opt/rocm if it has the HSA headers,
             else /usr)])],
        [], [with_rocm=guess])

    AS_CASE([$with_rocm],
        [no], [AC_MSG_ERROR([there is nothing to build without ROCm])],
        [yes|guess],
            [AS_IF([test -f /opt/rocm/include/hsa/hsa.h],
                   [ROCM_DIR=/opt/rocm], [ROCM_DIR=/usr])],
        [/*], [ROCM_DIR=$with_rocm],
        [AC_MSG_ERROR([--with-rocm=$with_rocm: give an absolute path])])

    AC_MSG_CHECKING([for ROCm])
    AS_IF([test -f "$ROCM_DIR/include/hsa/hsa.h" &&
           test -f "$ROCM_DIR/include/hip/hip_runtime.h"],
          [AC_MSG_RESULT([$ROCM_DIR])],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([no hsa/hsa.h or no hip/hip_runtime.h in
                         $ROCM_DIR/include: install the packages in
                         buildlib/packages, or give --with-rocm=DIR])])

    # As system headers: they are not ours to be warned about
    ROCM_CPPFLAGS="-D__HIP_PLATFORM_AMD__"
    AS_IF([test "$ROCM_DIR" != /usr],
          [ROCM_CPPFLAGS="$ROCM_CPPFLAGS -isystem $ROCM_DIR/include"])
    AC_SUBST([ROCM_DIR])
    AC_SUBST([ROCM_CPPFLAGS])
])
