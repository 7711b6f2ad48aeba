"""Rules for Bazel that make a stripped image and its sidecar of a cc_binary or a cc_test.

    load("//tools:covsplit.bzl", "covsplit_binary")

    cc_binary(
        name = "app",
        ...
    )

    covsplit_binary(
        name = "app_split",
        binary = ":app",
    )

The outputs are app_split and app_split.covsplit. Both are outputs of one action, so they are cached
and fetched together. What is run with app_split among its data finds it under the name of the
unsplit image, too, with the sidecar beside it: in the runfiles of a test, `app` is the stripped one.

covsplit_test is the same for a test: `bazel test` and `bazel coverage` run the stripped image.

With `bazel coverage`, LLVM's tools must read lightweight profiles. Let Bazel call them by the
wrapper covsplit-bazel-llvm, which says how.

Attributes:
    binary: the unsplit image.
    options: more options for `covsplit split`.
    covsplit: the command, a file or an executable target; by default it is searched for in PATH.
"""

def _covsplit_impl(ctx):
    unsplit = ctx.executable.binary
    stripped = ctx.actions.declare_file(ctx.label.name)
    sidecar = ctx.actions.declare_file(ctx.label.name + ".covsplit")
    words = ctx.actions.args()
    words.add("split")
    words.add_all(ctx.attr.options)
    words.add("-o", stripped)
    words.add("--sidecar", sidecar)
    words.add(unsplit)
    ctx.actions.run(
        outputs = [stripped, sidecar],
        inputs = [unsplit],
        executable = ctx.executable.covsplit or "covsplit",
        arguments = [words],
        mnemonic = "CovSplit",
        progress_message = "Splitting " + unsplit.short_path,
        use_default_shell_env = True,
    )

    # The unsplit image is an executable of its own rule: what else that needs is kept, but not it.
    needed = ctx.attr.binary[DefaultInfo].default_runfiles
    others = depset([file for file in needed.files.to_list() if file != unsplit])
    runfiles = ctx.runfiles(
        files = [stripped, sidecar],
        transitive_files = others,
        symlinks = {
            unsplit.short_path: stripped,
            unsplit.short_path + ".covsplit": sidecar,
        },
    )
    return [
        DefaultInfo(
            executable = stripped,
            files = depset([stripped, sidecar]),
            runfiles = runfiles,
        ),
        OutputGroupInfo(covsplit = depset([sidecar])),
        coverage_common.instrumented_files_info(ctx, dependency_attributes = ["binary"]),
    ]

_attributes = {
    "binary": attr.label(mandatory = True, executable = True, cfg = "target"),
    "options": attr.string_list(),
    "covsplit": attr.label(executable = True, cfg = "exec", allow_single_file = True),
}

# `bazel coverage` has tests call these, and gives them to those alone that ask for them.
_test_attributes = {
    "_collect_cc_coverage": attr.label(
        default = "@bazel_tools//tools/test:collect_cc_coverage",
        executable = True,
        cfg = "exec",
    ),
    "_lcov_merger": attr.label(
        default = "@bazel_tools//tools/test:lcov_merger",
        executable = True,
        cfg = "exec",
    ),
}

covsplit_binary = rule(_covsplit_impl, attrs = _attributes, executable = True)
covsplit_test = rule(_covsplit_impl, attrs = dict(_attributes, **_test_attributes), test = True)
