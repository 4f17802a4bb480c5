dnl
dnl SPDX-License-Identifier: BSD-3-Clause
dnl See file LICENSE for terms.
dnl
dnl OVERLAY_CUDA: --with-cuda and --with-nvml. Sets the conditional HAVE_CUDA and
dnl substitutes CUDA_DIR (empty: the CUDA part is left out, and CUDA_REASON says
dnl why), CUDA_LIBDIR, CUDA_CPPFLAGS, CUDART_MAJOR (of the toolkit's libcudart),
dnl NVML_INCLUDEDIR and NVML_LIBDIR (empty: where the toolkit or the system has
dnl it).
dnl
dnl The toolkit is optional: NVIDIA's license keeps it out of the distribution's
dnl main component. So is nvml.h within it, which UCX wants; contrib/ fetches the
dnl distribution's into nvml/ of the build folder.
dnl
AC_DEFUN([OVERLAY_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=DIR],
            [where the CUDA toolkit is (default: /usr/local/cuda if it has
             cuda.h, else that of the nvcc in PATH, else /usr; without one
             the CUDA part is left out)])],
        [], [with_cuda=guess])
    AC_ARG_WITH([nvml],
        [AS_HELP_STRING([--with-nvml=DIR],
            [folder with include/nvml.h and lib/libnvidia-ml.so (default: the
             CUDA toolkit, else nvml/ in the build folder, else /usr)])],
        [], [with_nvml=guess])

    AS_CASE([$with_cuda],
        [no], [cuda_dirs=],
        [yes|guess],
            [cuda_nvcc=`command -v nvcc`
             AS_IF([test -n "$cuda_nvcc"],
                   [cuda_nvcc=`readlink -f "$cuda_nvcc"`
                    cuda_nvcc=`AS_DIRNAME(["$cuda_nvcc"])`
                    cuda_nvcc=`AS_DIRNAME(["$cuda_nvcc"])`])
             cuda_dirs="/usr/local/cuda $cuda_nvcc /usr"],
        [/*], [cuda_dirs=$with_cuda],
        [AC_MSG_ERROR([--with-cuda=$with_cuda: give an absolute path])])
    AS_CASE([$with_nvml],
        [no|yes], [AC_MSG_ERROR([--with-nvml needs a folder])],
        [guess], [],
        [/*],
            [AS_IF([test ! -f "$with_nvml/include/nvml.h" ||
                    test ! -e "$with_nvml/lib/libnvidia-ml.so"],
                   [AC_MSG_ERROR([--with-nvml=$with_nvml: no include/nvml.h or \
no lib/libnvidia-ml.so there])])],
        [AC_MSG_ERROR([--with-nvml=$with_nvml: give an absolute path])])

    AC_MSG_CHECKING([for CUDA])
    CUDA_DIR=
    cuda_reason="no cuda.h with cuda_runtime.h in: $cuda_dirs; give a toolkit by \
--with-cuda=DIR"
    AS_IF([test "$with_cuda" = no], [cuda_reason="--without-cuda was given"])
    for cuda_dir in $cuda_dirs; do
        AS_IF([test -z "$CUDA_DIR" && test -f "$cuda_dir/include/cuda.h" &&
               test -f "$cuda_dir/include/cuda_runtime.h"],
              [CUDA_DIR=$cuda_dir])
    done

    # The folder of the libraries, and the number in the name of libcudart
    CUDA_LIBDIR=
    CUDART_MAJOR=
    AS_IF([test -n "$CUDA_DIR"],
        [for cuda_dir in "$CUDA_DIR/lib64" "$CUDA_DIR/lib" \
                         "$CUDA_DIR/lib/`$CC -print-multiarch`"; do
             AS_IF([test -z "$CUDA_LIBDIR" && test -e "$cuda_dir/libcudart.so"],
                   [CUDA_LIBDIR=$cuda_dir])
         done
         AS_IF([test -n "$CUDA_LIBDIR"],
               [CUDART_MAJOR=`readelf -d "$CUDA_LIBDIR/libcudart.so" |
                   awk -F 'libcudart.so.' '/SONAME/ { print int($[]2) }'`])
         AS_IF([test -z "$CUDART_MAJOR"],
               [cuda_reason="$CUDA_DIR has no libcudart.so"
                CUDA_DIR=])])

    # nvml.h: the first of the places that has it
    NVML_INCLUDEDIR=
    NVML_LIBDIR=
    AS_IF([test -n "$CUDA_DIR" && test "$with_nvml" != guess],
        [NVML_INCLUDEDIR=$with_nvml/include
         NVML_LIBDIR=$with_nvml/lib],
        [test -n "$CUDA_DIR" && test ! -f "$CUDA_DIR/include/nvml.h" &&
         test -f "`pwd`/nvml/include/nvml.h"],
        [NVML_INCLUDEDIR=`pwd`/nvml/include
         NVML_LIBDIR=`pwd`/nvml/lib])
    AS_IF([test -n "$CUDA_DIR" && test ! -f "$NVML_INCLUDEDIR/nvml.h" &&
           test ! -f "$CUDA_DIR/include/nvml.h" &&
           test ! -f /usr/include/nvml.h],
        [cuda_reason="no nvml.h for the toolkit in $CUDA_DIR; give one by \
--with-nvml=DIR, or let buildlib/nvml-fetch fetch the one of Debian"
         CUDA_DIR=])

    AS_IF([test -n "$CUDA_DIR"],
        [AC_MSG_RESULT([$CUDA_DIR])
         # As system headers: they are not ours to be warned about
         CUDA_CPPFLAGS="-isystem $CUDA_DIR/include"
         AS_IF([test "$CUDA_DIR" = /usr], [CUDA_CPPFLAGS=])
         AS_IF([test -n "$NVML_INCLUDEDIR"],
               [CUDA_CPPFLAGS="$CUDA_CPPFLAGS -isystem $NVML_INCLUDEDIR"])],
        [test "$with_cuda" = no],
        [AC_MSG_RESULT([no])],
        [AC_MSG_RESULT([no])
         AS_IF([test "$with_cuda" != guess],
               [AC_MSG_ERROR([--with-cuda=$with_cuda: $cuda_reason])])
         AC_MSG_NOTICE([the CUDA part is left out: $cuda_reason])])

    AC_SUBST([CUDA_DIR])
    AS_IF([test -n "$CUDA_DIR"], [CUDA_REASON=], [CUDA_REASON=$cuda_reason])
    AC_SUBST([CUDA_REASON])
    AC_SUBST([CUDA_LIBDIR])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDART_MAJOR])
    AC_SUBST([NVML_INCLUDEDIR])
    AC_SUBST([NVML_LIBDIR])
    AM_CONDITIONAL([HAVE_CUDA], [test -n "$CUDA_DIR"])
])
