// The options of a command: what is wrong with them is said together with how it is used.
import { parseArgs } from 'node:util';
import { Explained } from './run.mjs';

/** The values of `options`, described as node:util's parseArgs takes them. */
export function readOptions(args, options, usage) {
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new Explained(`${error.message}\n\n${usage}`);
  }
}

/** The account that --account names, in lower case: an id, or '*' for every account. */
export function readAccount(account) {
  if (account !== '*' && !/^[0-9a-f]{32}$/i.test(account)) {
    throw new Explained(`--account must be 32 hexadecimal digits or '*', not ${account}.`);
  }
  return account.toLowerCase();
}
