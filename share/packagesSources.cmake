# Rebuilds cpack's archive of the sources from the same files: sorted, without the user, and with modes
# that do not depend on the user.

get_filename_component(archive "${CPACK_PACKAGE_FILES}" REALPATH)
get_filename_component(directory "${CPACK_TEMPORARY_DIRECTORY}" DIRECTORY)
execute_process(
  COMMAND tar --create --file "${archive}" --xz --format=gnu --sort=name --owner=root:0
          --group=root:0 --mode=u+rwX,go+rX,go-w "--mtime=@$ENV{SOURCE_DATE_EPOCH}"
          --directory "${directory}" "${CPACK_PACKAGE_FILE_NAME}"
  COMMAND_ERROR_IS_FATAL ANY)
