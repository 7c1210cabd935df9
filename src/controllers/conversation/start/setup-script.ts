import { readFileSync } from 'node:fs';
import { shellCommand } from './shell-quote.ts';

/** Folder of the working tree, below the agent's working directory. */
export const projectFolder = 'project';

/** Creates a folder for a conversation without a repository, and prints its absolute path. */
export const workspaceScript = readFileSync(new URL('./workspace.sh', import.meta.url), 'utf8');

const setupProgram = readFileSync(new URL('./setup.sh', import.meta.url), 'utf8');
const preCommitHook = readFileSync(new URL('./pre-commit.sh', import.meta.url), 'utf8');

/**
 * Runs the set-up script of the repository once for each clone, and installs its git hook; exits
 * with the code of the script.
 */
export const setupScript = shellCommand(setupProgram, preCommitHook);
