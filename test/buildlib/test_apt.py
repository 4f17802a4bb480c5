#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""Lists of archives, and fetching from them; judged by apt itself."""

import hashlib
import os
import shutil
import textwrap
import unittest

from support import BUILDLIB, read_file, snapshot, test_case, write_files

DERIVE = os.path.join(BUILDLIB, "apt-sources")
FETCH = os.path.join(BUILDLIB, "ucx-fetch")
FETCH_NVML = os.path.join(BUILDLIB, "nvml-fetch")

# Names that never resolve: no test may reach a real archive
ONE = "http://one.invalid/debian"
TWO = "https://two.invalid/debian"


@unittest.skipIf(shutil.which("apt-get") is None, "no apt here")
class derived_lists(test_case):
    """apt-sources"""

    # What the lists are for, in apt's words
    KIND, OPTIONS = "Sources", ()

    def derive(self, files):
        """Derive from these lists; {(uri, suite, component)} as apt understands
        the result."""
        write_files(self.path("etc"), {name: textwrap.dedent(text)
                                       for name, text in files.items()})
        before = snapshot(self.path("etc"))
        self.succeed(DERIVE, *self.OPTIONS, self.path("derived"),
                     *[self.path("etc", name) for name in files])
        self.assertEqual(before, snapshot(self.path("etc")))
        return self.targets(self.path("derived"))

    def targets(self, parts):
        """What apt would get."""
        os.makedirs(self.path("state/partial"), exist_ok=True)
        write_files(self.folder, {"empty.conf": ""})
        out = self.succeed(
            "apt-get", "indextargets", "--no-release-info",
            "-o", "Dir::Etc::SourceList=/dev/null",
            "-o", "Dir::Etc::SourceParts=" + parts,
            "-o", "Dir::State::Lists=" + self.path("state"),
            "--format",
            "$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)",
            env={"APT_CONFIG": self.path("empty.conf")})
        result = set()
        for line in out.splitlines():
            created_by, *rest = line.split(" ", 3)
            if created_by not in ("Sources", "Packages"):
                continue  # translations and the like
            self.assertEqual(created_by, self.KIND, out)
            # apt leaves the format's word where there is nothing to say
            result.add(tuple(word.replace("$(COMPONENT)", "")
                             for word in rest))
        return result



class derived_source_lists(derived_lists):
    """For source packages"""

    def test_one_line(self):
        self.assertEqual(
            self.derive({"a.list": f"deb {ONE} bookworm main contrib\n"}),
            {(ONE + "/", "bookworm", "main"),
             (ONE + "/", "bookworm", "contrib")})

    def test_one_line_keeps_options(self):
        self.assertEqual(
            self.derive({"a.list": f"deb [ arch=amd64 "
                                   f"signed-by=/k.gpg ] {ONE} bookworm main\n"}),
            {(ONE + "/", "bookworm", "main")})
        self.assertIn("deb-src [ arch=amd64 signed-by=/k.gpg ] ",
                      read_file(self.path("derived"), "derived.list"))

    def test_one_line_skips_comments_and_discs(self):
        self.assertEqual(
            self.derive({"a.list": f"""\
                # deb {TWO} bookworm main

                deb cdrom:[Debian 12 _Bookworm_]/ bookworm main
                deb {ONE} bookworm main # deb {TWO} bookworm main
                """}),
            {(ONE + "/", "bookworm", "main")})

    def test_one_line_with_sources_already_there(self):
        self.derive({"a.list": f"deb {ONE} bookworm main\n"
                               f"deb-src {ONE} bookworm main\n"})
        self.assertEqual(read_file(self.path("derived"), "derived.list"),
                         f"deb-src {ONE} bookworm main\n")

    def test_exact_path_suite(self):
        self.assertEqual(self.derive({"a.list": f"deb {ONE} stable/\n"}),
                         {(ONE + "/", "stable/", "")})

    def test_stanza(self):
        self.assertEqual(
            self.derive({"a.sources": f"""\
                Types: deb
                # a comment within
                URIs: {ONE}
                Suites: bookworm bookworm-updates
                Components: main
                Signed-By: /k.gpg
                """}),
            {(ONE + "/", "bookworm", "main"),
             (ONE + "/", "bookworm-updates", "main")})
        self.assertIn("\nSigned-By: /k.gpg\n",
                      read_file(self.path("derived"), "derived.sources"))

    def test_stanzas_with_both_types_and_two_addresses(self):
        self.assertEqual(
            self.derive({"a.sources": f"""\
                # head

                Types: deb deb-src
                URIs: {ONE} {TWO}
                Suites: bookworm
                Components: main


                Types: deb
                URIs: {TWO}
                Suites: other
                Components: free
                """}),
            {(ONE + "/", "bookworm", "main"),
             (TWO + "/", "bookworm", "main"),
             (TWO + "/", "other", "free")})

    def test_stanza_that_is_disabled(self):
        for word in ("no", "No", "false", "off"):
            self.assertEqual(
                self.derive({"a.sources": f"""\
                    Types: deb
                    URIs: {TWO}
                    Suites: bookworm
                    Components: main
                    Enabled: {word}

                    Enabled: yes
                    Types: deb
                    URIs: {ONE}
                    Suites: bookworm
                    Components: main
                    """}),
                {(ONE + "/", "bookworm", "main")})

    def test_stanza_with_a_key_inside(self):
        self.derive({"a.sources": f"""\
            types: deb
            uris: {ONE}
            suites: bookworm
            components: main
            signed-by:
             -----BEGIN PGP PUBLIC KEY BLOCK-----
             .
             mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS
             -----END PGP PUBLIC KEY BLOCK-----
            """})
        self.assertIn("signed-by: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n "
                      "mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS\n",
                      read_file(self.path("derived"), "derived.sources"))

    def test_both_formats_together(self):
        self.assertEqual(
            self.derive({"sources.list": f"deb {ONE} bookworm main\n",
                         "b.sources": f"Types: deb\nURIs: {TWO}\n"
                                      "Suites: bookworm\nComponents: main\n"}),
            {(ONE + "/", "bookworm", "main"),
             (TWO + "/", "bookworm", "main")})

    def test_only_what_apt_reads(self):
        parts = self.path("etc/parts")
        write_files(parts, {"a.list": f"deb {ONE} bookworm main\n",
                            "b.list.disabled": f"deb {TWO} bookworm main\n",
                            "c d.list": f"deb {TWO} bookworm main\n",
                            "e.txt": "nothing of apt's\n"})
        write_files(self.folder, {
            "etc/main.list": f"deb {ONE} stable main\n",
            "apt.conf": f'Dir::Etc::SourceList "{self.path("etc/main.list")}";\n'
                        f'Dir::Etc::SourceParts "{parts}";\n'})
        self.succeed(DERIVE, self.path("derived"),
                     env={"APT_CONFIG": self.path("apt.conf")})
        self.assertEqual(self.targets(self.path("derived")),
                         {(ONE + "/", "stable", "main"),
                          (ONE + "/", "bookworm", "main")})

    def test_malformed_lists_are_refused_with_their_name(self):
        for name, text in {"a.list": "debb http://x y z\n",
                           "a.sources": "Types deb\n",
                           "b.sources": " continuation: first\n"}.items():
            write_files(self.path("etc"), {name: text})
            self.fail_with([self.path("etc", name)], DERIVE,
                           self.path("derived"), self.path("etc", name))

    def test_no_archive_at_all(self):
        write_files(self.path("etc"), {"a.list": "# nothing\n"})
        self.fail_with(["no archives"], DERIVE, self.path("derived"),
                       self.path("etc", "a.list"))


class derived_component_lists(derived_lists):
    """For the binary packages of one component"""

    KIND, OPTIONS = "Packages", ("--component", "non-free")

    def test_one_line(self):
        self.assertEqual(
            self.derive({"a.list": f"deb {ONE} bookworm main contrib\n"}),
            {(ONE + "/", "bookworm", "non-free")})

    def test_one_line_keeps_options(self):
        self.derive({"a.list": f"deb [signed-by=/k.gpg] {ONE} bookworm main\n"})
        self.assertEqual(read_file(self.path("derived"), "derived.list"),
                         f"deb [signed-by=/k.gpg] {ONE} bookworm non-free\n")

    def test_stanza(self):
        self.assertEqual(
            self.derive({"a.sources": f"""\
                Types: deb deb-src
                URIs: {ONE}
                Suites: bookworm bookworm-updates
                Components: main contrib
                Signed-By: /k.gpg
                """}),
            {(ONE + "/", "bookworm", "non-free"),
             (ONE + "/", "bookworm-updates", "non-free")})
        self.assertIn("\nSigned-By: /k.gpg\n",
                      read_file(self.path("derived"), "derived.sources"))

    def test_archives_without_main_are_left_out(self):
        self.assertEqual(
            self.derive({
                "a.list": f"deb {ONE} bookworm main\ndeb {TWO} flat/\n"
                          f"deb {TWO} bookworm stable\n",
                "a.sources": f"Types: deb\nURIs: {TWO}\nSuites: other\n"
                             "Components: stable\n"}),
            {(ONE + "/", "bookworm", "non-free")})

    def test_archives_of_sources_only_are_left_out(self):
        self.assertEqual(
            self.derive({
                "a.list": f"deb {ONE} bookworm main\n"
                          f"deb-src {TWO} bookworm main\n",
                "a.sources": f"Types: deb-src\nURIs: {TWO}\nSuites: other\n"
                             "Components: main\n"}),
            {(ONE + "/", "bookworm", "non-free")})

    def test_stanza_that_is_disabled(self):
        write_files(self.path("etc"), {
            "a.sources": f"Types: deb\nURIs: {ONE}\nSuites: bookworm\n"
                         "Components: main\nEnabled: no\n"})
        self.fail_with(["no archives"], DERIVE, *self.OPTIONS,
                       self.path("derived"), self.path("etc", "a.sources"))


@unittest.skipIf(shutil.which("apt-get") is None, "no apt here")
class fetching(test_case):
    """A machine that takes packages from an archive in a folder"""

    def setUp(self):
        super().setUp()
        self.machine = {"APT_CONFIG": self.path("apt.conf")}
        write_files(self.folder, {
            "apt.conf": f'Dir::Etc::SourceList "/dev/null";\n'
                        f'Dir::Etc::SourceParts "{self.path("parts")}";\n'
                        f'Acquire::Retries "0";\n'})
        self.offer_from(f"file:{self.path('archive')}")

    def offer_from(self, uri):
        """The machine takes binary packages from here."""
        write_files(self.path("parts"),
                    {"a.list": f"deb [trusted=yes] {uri} ./\n"})



class fetching_ucx(fetching):
    """ucx-fetch"""

    def archive(self, packages):
        """An archive of source packages, {name: version}, that are empty."""
        index = []
        for name, version in packages.items():
            tar = f"{name}_{version}.tar.xz"
            body = f"Format: 3.0 (native)\nSource: {name}\nBinary: x\n" \
                   f"Version: {version}\n"
            write_files(self.path("archive"), {tar: "made up"})
            sums = self.checksum(tar)
            dsc = f"{name}_{version}.dsc"
            write_files(self.path("archive"),
                        {dsc: f"{body}Checksums-Sha256:\n {sums}\n"})
            index.append(f"Package: {name}\n{body.split(chr(10), 2)[0]}\n"
                         f"Binary: x\nVersion: {version}\nDirectory: .\n"
                         f"Checksums-Sha256:\n {sums}\n "
                         f"{self.checksum(dsc)}\n")
        write_files(self.path("archive"), {"Sources": "\n".join(index)})

    def checksum(self, name):
        """A line of a list of checksums."""
        with open(self.path("archive", name), "rb") as source:
            content = source.read()
        return f"{hashlib.sha256(content).hexdigest()} {len(content)} {name}"

    def test_gets_the_package_and_leaves_the_machine_alone(self):
        self.archive({"ucx": "1.13.1-1", "ucx-other": "9"})
        before = snapshot("/var/lib/apt/lists"), snapshot("/etc/apt")
        self.succeed(FETCH, self.path("download"), env=self.machine)
        self.assertEqual(before, (snapshot("/var/lib/apt/lists"),
                                  snapshot("/etc/apt")))
        self.assertIn("Version: 1.13.1-1\n",
                      read_file(self.path("download"), "ucx.dsc"))
        self.assertEqual(
            read_file(self.path("download"), "ucx_1.13.1-1.tar.xz"), "made up")

    def test_takes_an_update_of_the_distribution(self):
        self.archive({"ucx": "1.13.1-1+deb12u2"})
        self.succeed(FETCH, self.path("download"), env=self.machine)
        self.assertIn("Version: 1.13.1-1+deb12u2\n",
                      read_file(self.path("download"), "ucx.dsc"))

    def test_no_such_package(self):
        self.archive({"ucx-other": "9"})
        self.fail_with(["offers the source package ucx", "--with-ucx-source"],
                       FETCH, self.path("download"), env=self.machine)

    def test_another_version_only(self):
        self.archive({"ucx": "1.18.0-1"})
        self.fail_with(["1.18.0-1", "not 1.13.1", "--with-ucx-source"],
                       FETCH, self.path("download"), env=self.machine)

    def test_unreachable_archive(self):
        self.offer_from(f"file:{self.path('nowhere')}")
        self.fail_with(["reachable", "--with-ucx-source"],
                       FETCH, self.path("download"), env=self.machine)
        self.assertIsNone(read_file(self.path("download"), "ucx.dsc"))

    def test_damaged_package_is_refused(self):
        self.archive({"ucx": "1.13.1-1"})
        write_files(self.path("archive"), {"ucx_1.13.1-1.tar.xz": "damaged"})
        self.fail_with(["ucx_1.13.1-1.tar.xz"], FETCH, self.path("download"),
                       env=self.machine)
        self.assertIsNone(read_file(self.path("download"), "ucx.dsc"))


class fetching_nvml(fetching):
    """nvml-fetch"""

    def setUp(self):
        super().setUp()
        write_files(self.path("parts"), {
            "a.list": f"deb [trusted=yes] file:{self.path('archive')} bookworm "
                      "main\n"})
        self.architecture = self.succeed("dpkg", "--print-architecture").strip()

    def archive(self, packages):
        """An archive of binary packages in the component non-free, {name:
        {file: content}}."""
        index = []
        for name, files in packages.items():
            folder = self.path("packages", name)
            control = f"Package: {name}\nVersion: 1\nMaintainer: x <x@x>\n" \
                      f"Architecture: {self.architecture}\nDescription: x\n"
            write_files(folder, dict(files, **{"DEBIAN/control": control}))
            package = self.path("archive/pool", name + ".deb")
            os.makedirs(os.path.dirname(package), exist_ok=True)
            self.succeed("dpkg-deb", "--root-owner-group", "--build", folder,
                         package)
            with open(package, "rb") as source:
                content = source.read()
            index.append(f"{control}Filename: pool/{name}.deb\n"
                         f"Size: {len(content)}\n"
                         f"SHA256: {hashlib.sha256(content).hexdigest()}\n")
        write_files(self.path("archive/dists/bookworm/non-free",
                              "binary-" + self.architecture),
                    {"Packages": "\n".join(index)})

    def offer_both(self, header="made up\n"):
        """The packages as they are in the distribution."""
        folder = "usr/lib/x/nvidia/current/"
        self.archive({
            "libnvidia-ml-dev": {"usr/include/nvml.h": header,
                                 folder + "libnvidia-ml.so": "development"},
            "libnvidia-ml1": {folder + "libnvidia-ml.so.1": "library"}})

    def fetch(self):
        """Fetch, which must succeed."""
        self.succeed(FETCH_NVML, self.path("nvml"), env=self.machine)

    def test_leaves_what_a_build_needs_and_the_machine_alone(self):
        self.offer_both()
        before = snapshot("/var/lib/apt/lists"), snapshot("/etc/apt")
        self.fetch()
        self.assertEqual(before, (snapshot("/var/lib/apt/lists"),
                                  snapshot("/etc/apt")))
        for name, content in {"include/nvml.h": "made up\n",
                              "lib/libnvidia-ml.so": "development",
                              "lib/libnvidia-ml.so.1": "library"}.items():
            self.assertEqual(read_file(self.path("nvml"), name), content)

    def test_a_second_time_takes_what_is_new(self):
        self.offer_both()
        self.fetch()
        self.offer_both("newer\n")
        self.fetch()
        self.assertEqual(read_file(self.path("nvml"), "include/nvml.h"),
                         "newer\n")

    def test_goes_on_after_it_was_killed(self):
        self.offer_both()
        write_files(self.path("nvml"), {"unpacked/usr/include/nvml.h": "half",
                                        "include.new/nvml.h": "half",
                                        "archives/old.deb": "half"})
        self.fetch()
        self.assertEqual(read_file(self.path("nvml"), "include/nvml.h"),
                         "made up\n")

    def test_no_such_package(self):
        self.archive({"libnvidia-ml1": {}})
        self.fail_with(["libnvidia-ml-dev", "non-free", "--with-nvml"],
                       FETCH_NVML, self.path("nvml"), env=self.machine)
        self.assertIsNone(read_file(self.path("nvml"), "include/nvml.h"))

    def test_unreachable_archive(self):
        self.fail_with(["reachable", "--with-nvml"], FETCH_NVML,
                       self.path("nvml"), env=self.machine)

    def test_package_without_the_header(self):
        self.archive({"libnvidia-ml-dev": {"usr/share/x": "x"},
                      "libnvidia-ml1": {"usr/share/y": "y"}})
        self.fail_with(["libnvidia-ml", "nvml.h"], FETCH_NVML,
                       self.path("nvml"), env=self.machine)
