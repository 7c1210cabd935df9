import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { basicAuthorization, type GitCredential, type GitCredentials } from '../gateway/git/credentials.ts';
import type { Logger } from '../observability/logger.ts';
import { CommandError, systemCodeOf } from './command-error.ts';

/** Whom hosts expect where a token is the password; any name will do for the others. */
const tokenUsers: Readonly<Record<string, string>> = { github: 'x-access-token', gitlab: 'oauth2', bitbucket: 'x-token-auth' };
const maxLength = 8192;

/**
 * An owner as part of a file's name. Entries of a Secret have letters, digits, `-`, `_` and `.` only, so each other byte, and `_`, is
 * written as `_` and two hex digits: alice@example.com is alice_40example.com.
 */
export const fileNameOf = (owner: string): string =>
  owner.replaceAll(/[^A-Za-z0-9.-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `_${byte.toString(16).padStart(2, '0')}`).join(''),
  );

/** From `user:password`, or a token alone; undefined for what is neither. */
export function authorizationOf(text: string, provider: string): string | undefined {
  const secret = text.trim();
  if (secret === '' || secret.length > maxLength || /[^\x21-\x7e]/.test(secret)) return undefined;
  const colon = secret.indexOf(':');
  return colon < 0
    ? basicAuthorization(tokenUsers[provider] ?? 'token', secret)
    : basicAuthorization(secret.slice(0, colon), secret.slice(colon + 1));
}

export interface MountedGitCredentialsOptions {
  readonly folder: string;
  readonly providers: readonly string[];
  readonly logger: Logger;
}

/**
 * Credentials from the files of a mounted folder: PROVIDER is for everybody, PROVIDER.OWNER for one owner instead. They are read when
 * they are needed, so a change counts at once. What a file holds is never logged.
 */
export function mountedGitCredentials({ folder, providers, logger }: MountedGitCredentialsOptions): GitCredentials {
  // Any other name would not stay apart from its owners', or within the folder.
  const known = new Set(providers.filter((provider) => /^[A-Za-z0-9_-]+$/.test(provider)));
  const problems = new Map<string, string>();
  const complain = (name: string, problem: string): void => {
    if (problems.get(name) === problem) return;
    problems.set(name, problem);
    logger.error('a git credential can not be used', { credential: name, problem });
  };
  /** Null when there is no such file; undefined when it is of no use. */
  const read = async (name: string, provider: string): Promise<GitCredential | null | undefined> => {
    let text: string;
    try {
      text = await readFile(join(folder, name), 'utf8');
    } catch (error) {
      const code = systemCodeOf(error) ?? 'unreadable';
      // The second: too long a name for a file, so there is none.
      if (code === 'ENOENT' || code === 'ENAMETOOLONG') return null;
      complain(name, code);
      return undefined;
    }
    const authorization = authorizationOf(text, provider);
    if (authorization === undefined) {
      complain(name, 'it has to be one line, user:password or a token');
      return undefined;
    }
    problems.delete(name);
    return { authorization, name };
  };
  for (const name of filesIn(folder)) {
    if (!known.has(name.split('.', 1)[0] ?? '')) logger.warn('a git credential is for none of the git hosts', { credential: name });
  }
  return {
    of: async (owner, provider) => {
      if (!known.has(provider)) return undefined;
      const own = await read(`${provider}.${fileNameOf(owner)}`, provider);
      // Where an owner's own one is of no use, everybody's is no substitute: it may open more.
      return own === null ? ((await read(provider, provider)) ?? undefined) : own;
    },
  };
}

/** Without what a mount keeps for itself. */
function filesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => !name.startsWith('.'));
  } catch (error) {
    throw new CommandError(`GIT_CREDENTIALS_DIR: ${folder} can't be read (${systemCodeOf(error) ?? String(error)})`, { cause: error });
  }
}
