"""Operations on files of a command, counted in the best way there is and put into numbers."""
