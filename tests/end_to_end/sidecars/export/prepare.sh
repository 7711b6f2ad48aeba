# A program by clang 19, "app", its sidecar "side", and its profile.
subject units clang=19
LLVM_PROFILE_FILE=app.profraw ./app
llvm-profdata-19 merge -o app.profdata app.profraw
covsplit split -o stripped --sidecar side app
