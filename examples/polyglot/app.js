// The JavaScript code and its test against the shared table.
'use strict';

const fs = require('fs');
const path = require('path');

const VALUES = [
  [1000, 'M'], [900, 'CM'], [500, 'D'], [400, 'CD'], [100, 'C'], [90, 'XC'], [50, 'L'],
  [40, 'XL'], [10, 'X'], [9, 'IX'], [5, 'V'], [4, 'IV'], [1, 'I'],
];

/** The numeral of a number; null outside of 1 to 3999. */
function toRoman(number) {
  if (!(number >= 1 && number <= 3999)) return null;
  let numeral = '';
  for (const [value, letters] of VALUES) {
    while (number >= value) {
      numeral += letters;
      number -= value;
    }
  }
  return numeral;
}

/** The number of a numeral; null for anything but the one way to write it. */
function fromRoman(numeral) {
  let rest = numeral;
  let number = 0;
  for (const [value, letters] of VALUES) {
    while (rest.startsWith(letters)) {
      number += value;
      rest = rest.slice(letters.length);
    }
  }
  // Greedy parsing accepts too much, such as IIII; compare with the number's numeral.
  return rest === '' && toRoman(number) === numeral ? number : null;
}

const table = fs.readFileSync(path.join(__dirname, 'numerals.tsv'), 'utf8');
const lines = table.trimEnd().split('\n').map((line) => line.split('\t'));
const wrong = lines.filter(([number, text]) => (number === '-'
  ? fromRoman(text) !== null
  : toRoman(Number(number)) !== text || fromRoman(text) !== Number(number)));

for (const [number, text] of wrong) {
  console.error(`JavaScript disagrees with the table: ${number}\t${text}`);
}
if (wrong.length === 0) {
  console.log(`JavaScript agrees with all ${lines.length} lines of the table`);
}
process.exitCode = wrong.length === 0 ? 0 : 1;
