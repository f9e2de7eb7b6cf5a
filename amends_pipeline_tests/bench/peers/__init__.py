"""Programs that do the same work with other engines. They import nothing of the project's."""
