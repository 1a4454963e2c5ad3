/* Roman numerals from 1 to 3999. */
#ifndef NUMERALS_H
#define NUMERALS_H

/* The longest numeral, MMMDCCCLXXXVIII, and its final NUL. */
#define NUMERAL_SIZE 16

/* Writes the numeral of a number; returns 0 outside 1 to 3999, else 1. */
int to_roman(int number, char numeral[NUMERAL_SIZE]);

/* Returns the number of a numeral; 0 for invalid numerals. */
int from_roman(const char *numeral);

#endif
