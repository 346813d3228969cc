//! An interpreter of rows: the plain version of every operator, on 128-bit integers.
