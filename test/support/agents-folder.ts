import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Folder of installed agents, which the `run` script of each suite fills: `AGENTS_DIR`, or else one
 * for all checkouts of this machine. Each version of an agent has a folder of its own in it.
 */
export const agentsFolder =
  process.env['AGENTS_DIR'] ??
  join(
    process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
    'conversation-operator',
    'agents',
  );
