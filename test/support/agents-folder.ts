import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

const { AGENTS_DIR = '', XDG_CACHE_HOME = '' } = process.env;
const cache = XDG_CACHE_HOME === '' ? join(homedir(), '.cache') : XDG_CACHE_HOME;

/**
 * Folder of installed agents, which the `run` script of each suite fills: `AGENTS_DIR`, or else one
 * for all checkouts of this machine. Each version of an agent has a folder of its own in it.
 */
export const agentsFolder = resolve(
  AGENTS_DIR === '' ? join(cache, 'conversation-operator', 'agents') : AGENTS_DIR,
);
