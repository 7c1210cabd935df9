import { readFileSync } from 'node:fs';
import { coAuthorHook, preCommitHook, type CommitIdentity } from '../git/commits.ts';
import { shellCommand } from '../../../agent/shell-quote.ts';

/** Folder of the working tree, below the agent's working directory. */
export const projectFolder = 'project';

/** Creates a folder for a conversation without a repository, and prints its absolute path. */
export const workspaceScript = readFileSync(new URL('./workspace.sh', import.meta.url), 'utf8');

const setupProgram = readFileSync(new URL('./setup.sh', import.meta.url), 'utf8');

/**
 * Runs the set-up script of the repository once for each clone, sets the author of commits, and
 * installs git hooks; exits with the code of the script.
 */
export const setupScriptFor = ({ name, email, coAuthor }: Partial<CommitIdentity> = {}): string =>
  shellCommand(
    setupProgram,
    preCommitHook,
    coAuthorHook,
    ...[name, email, coAuthor].map((text) => text ?? ''),
  );
