dnl
dnl SPDX-License-Identifier: BSD-3-Clause
dnl See file LICENSE for terms.
dnl
dnl OVERLAY_UCX_SOURCE: --with-ucx-source. Substitutes UCX_SOURCE_GIVEN (empty:
dnl the distribution's source package), and for the programs that use UCX's
dnl headers and libraries from our build folder UCX_DIR, UCX_CPPFLAGS, UCP_LIBS
dnl and UCT_LIBS.
dnl
AC_DEFUN([OVERLAY_UCX_SOURCE], [
    AC_ARG_WITH([ucx-source],
        [AS_HELP_STRING([--with-ucx-source=DIR],
            [UCX's source tree, a git checkout or an unpacked release; it is
             copied, never changed (default: the distribution's source
             package, through apt)])],
        [], [with_ucx_source=no])

    UCX_SOURCE_GIVEN=
    AS_CASE([$with_ucx_source],
        [no], [],
        [yes|""], [AC_MSG_ERROR([--with-ucx-source needs a folder])],
        [UCX_SOURCE_GIVEN=`cd "$with_ucx_source" 2>/dev/null && pwd`
         AS_IF([test -z "$UCX_SOURCE_GIVEN"],
               [AC_MSG_ERROR([--with-ucx-source: no folder $with_ucx_source])])
         AC_MSG_CHECKING([whether the overlay fits $UCX_SOURCE_GIVEN])
         AS_IF(["$srcdir/buildlib/overlay" check "$srcdir" \
                    "$UCX_SOURCE_GIVEN" 2>conftest.err >/dev/null],
               [AC_MSG_RESULT([yes])],
               [AC_MSG_RESULT([no])
                ucx_error=`sed 's/^error: //' conftest.err; rm -f conftest.err`
                AC_MSG_ERROR([--with-ucx-source: $ucx_error])])
         rm -f conftest.err])
    AC_SUBST([UCX_SOURCE_GIVEN])

    UCX_DIR='$(abs_top_builddir)/ucx'
    UCX_CPPFLAGS='-I$(UCX_DIR)/source/src -I$(UCX_DIR)/obj/src -I$(UCX_DIR)/obj'
    UCT_LIBS='$(UCX_DIR)/obj/src/uct/libuct.la $(UCX_DIR)/obj/src/ucs/libucs.la'
    UCP_LIBS='$(UCX_DIR)/obj/src/ucp/libucp.la $(UCT_LIBS)'
    AC_SUBST([UCX_DIR])
    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCT_LIBS])
    AC_SUBST([UCP_LIBS])
])
