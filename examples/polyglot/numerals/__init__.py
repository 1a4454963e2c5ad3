"""Roman numerals from 1 to 3999.

>>> to_roman(1984)
'MCMLXXXIV'
>>> from_roman("XIV")
14
>>> from_roman("IIII") is None
True
"""

VALUES = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
]


def to_roman(number):
    """Returns the numeral of a number; None outside 1 to 3999."""
    if not 1 <= number <= 3999:
        return None
    numeral = ""
    for value, letters in VALUES:
        count, number = divmod(number, value)
        numeral += letters * count
    return numeral


def from_roman(numeral):
    """Returns the number of a numeral; None for invalid numerals."""
    rest, number = numeral, 0
    for value, letters in VALUES:
        while rest.startswith(letters):
            number += value
            rest = rest[len(letters):]
    # Greedy parsing accepts too much, such as IIII; compare with the number's numeral.
    if rest or to_roman(number) != numeral:
        return None
    return number
