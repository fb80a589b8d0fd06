"""Operations on files of a command and all that it starts, counted in one of several ways."""
