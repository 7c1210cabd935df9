import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { eventually } from '../../support/eventually.ts';
import { repositoryOf, type Tree } from '../../support/git-tree.ts';

const run = promisify(execFile);
const program = (name: string): string => fileURLToPath(new URL(`../${name}`, import.meta.url));

export const startedSchema = z.object({
  url: z.url(),
  admin: z.string(),
  adminPassword: z.string(),
  adminToken: z.string(),
});
const tokenSchema = z.object({ id: z.number(), sha1: z.string() });
const branchesSchema = z.array(
  z.object({ name: z.string(), commit: z.object({ id: z.string() }) }),
);
const pullSchema = z.object({
  number: z.number(),
  title: z.string(),
  body: z.string(),
  state: z.enum(['open', 'closed']),
  draft: z.boolean().default(false),
  merged: z.boolean(),
  html_url: z.string(),
  user: z.object({ login: z.string() }),
  head: z.object({ ref: z.string(), sha: z.string() }),
  base: z.object({ ref: z.string() }),
});

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface ForgeAnswer {
  readonly status: number;
  /** Parsed JSON; undefined for an empty body. */
  readonly body: unknown;
}

/** A token of a user: the password of git, and a credential of the API. */
export interface ForgeToken {
  readonly user: string;
  readonly id: number;
  /** A secret. */
  readonly text: string;
}

export interface ForgePull {
  readonly number: number;
  readonly title: string;
  readonly body: string;
  readonly state: 'open' | 'closed' | 'merged';
  readonly isDraft: boolean;
  readonly author: string;
  readonly url: string;
  /** Names of branches. */
  readonly head: string;
  readonly base: string;
  readonly headCommit: string;
}

export interface NewRepository {
  /** True by default. */
  readonly private?: boolean;
  /** The content of one commit on main; without them the repository is empty. */
  readonly files?: Tree;
}

type Permission = 'read' | 'write' | 'admin';

/**
 * A real Gitea, in processes of its own. Repositories are named `owner/name`. Every function throws
 * where the forge refuses, except `api`.
 */
export interface Forge {
  /** Without a slash at its end. */
  readonly url: string;
  readonly adminToken: string;
  /** A call below `/api/v1`, as the administrator or with another token. */
  api(method: Method, path: string, body?: unknown, token?: string): Promise<ForgeAnswer>;
  newUser(name: string): Promise<void>;
  /** Removes a user with all tokens and repositories. */
  deleteUser(name: string): Promise<void>;
  /** Returns `owner/name`. */
  newRepository(owner: string, name: string, options?: NewRepository): Promise<string>;
  /** Scopes as Gitea has them: `write:repository`. */
  newToken(user: string, scopes: readonly string[]): Promise<ForgeToken>;
  /** The token opens nothing any more once this has resolved. */
  revoke(token: ForgeToken): Promise<void>;
  addCollaborator(repository: string, user: string, permission: Permission): Promise<void>;
  /** Commits of branches, by name. */
  branches(repository: string): Promise<Readonly<Record<string, string>>>;
  tags(repository: string): Promise<readonly string[]>;
  /** Pull requests of every state, the oldest first. */
  pulls(repository: string): Promise<readonly ForgePull[]>;
  closePull(repository: string, number: number): Promise<void>;
  /** Merges with a merge commit; the branch stays. */
  mergePull(repository: string, number: number): Promise<void>;
  /** Stops the forge and removes what it has stored. */
  close(): Promise<void>;
}

/** Starts a forge without users. Throws with the output of `test/forge/up` where that fails. */
export async function startForge(): Promise<Forge> {
  const state = await mkdtemp(join(process.env['FORGE_STATES'] ?? tmpdir(), 'forge-'));
  const { stdout } = await run(program('up'), [state]);
  const started = startedSchema.parse(JSON.parse(stdout));
  return forgeOf(started, async () => {
    await run(program('down'), [state]);
  });
}

/** A forge that runs, by the output of `test/forge/up`. */
export function forgeOf(
  { url, admin, adminPassword, adminToken }: z.output<typeof startedSchema>,
  close: () => Promise<void>,
): Forge {
  const call = async (
    method: Method,
    path: string,
    body: unknown,
    authorization: string,
  ): Promise<ForgeAnswer> => {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  };
  const api: Forge['api'] = (method, path, body, token = adminToken) =>
    call(method, path, body, `token ${token}`);
  const done = async (method: Method, path: string, body?: unknown): Promise<unknown> =>
    successOf(await api(method, path, body), `${method} ${path}`);
  /** Gitea manages tokens for passwords alone, whatever a token may do. */
  const withPassword = async (method: Method, path: string, body?: unknown): Promise<unknown> =>
    successOf(
      await call(
        ...([method, path, body] as const),
        `Basic ${Buffer.from(`${admin}:${adminPassword}`).toString('base64')}`,
      ),
      `${method} ${path}`,
    );
  let tokens = 0;

  return {
    url,
    adminToken,
    api,
    close,
    async newUser(name) {
      await done('POST', '/admin/users', {
        username: name,
        email: `${name}@example.com`,
        password: `${adminPassword}-${name}`,
        must_change_password: false,
      });
    },
    async deleteUser(name) {
      await done('DELETE', `/admin/users/${name}?purge=true`);
    },
    async newRepository(owner, name, { private: isPrivate = true, files } = {}) {
      const repository = `${owner}/${name}`;
      await done('POST', `/admin/users/${owner}/repos`, {
        name,
        private: isPrivate,
        default_branch: 'main',
        auto_init: false,
      });
      if (files !== undefined)
        await pushTree(files, `${url}/${repository}.git`, `token ${adminToken}`);
      return repository;
    },
    async newToken(user, scopes) {
      const made = await withPassword('POST', `/users/${user}/tokens`, {
        name: `token-${++tokens}`,
        scopes,
      });
      const { id, sha1 } = tokenSchema.parse(made);
      return { user, id, text: sha1 };
    },
    async revoke({ user, id }) {
      await withPassword('DELETE', `/users/${user}/tokens/${id}`);
    },
    async addCollaborator(repository, user, permission) {
      await done('PUT', `/repos/${repository}/collaborators/${user}`, { permission });
    },
    async branches(repository) {
      const found = branchesSchema.parse(await done('GET', `/repos/${repository}/branches`));
      return Object.fromEntries(found.map((branch) => [branch.name, branch.commit.id]));
    },
    async tags(repository) {
      const found = await done('GET', `/repos/${repository}/tags`);
      return z
        .array(z.object({ name: z.string() }))
        .parse(found)
        .map(({ name }) => name);
    },
    async pulls(repository) {
      const found = await done('GET', `/repos/${repository}/pulls?state=all`);
      const pulls = z.array(pullSchema).parse(found).map(pullOf);
      return pulls.sort((one, other) => one.number - other.number);
    },
    async closePull(repository, number) {
      await done('PATCH', `/repos/${repository}/pulls/${number}`, { state: 'closed' });
    },
    async mergePull(repository, number) {
      const path = `/repos/${repository}/pulls/${number}/merge`;
      // The forge first finds out in the background whether there are conflicts.
      const answer = await eventually(`a decision on ${path}`, async () => {
        const decision = await api('POST', path, { Do: 'merge' });
        return !JSON.stringify(decision.body ?? '').includes('try again later') && decision;
      });
      successOf(answer, `POST ${path}`);
    },
  };
}

function successOf({ status, body }: ForgeAnswer, what: string): unknown {
  if (status < 200 || status > 299)
    throw new Error(`${what}: the forge answers ${status} ${JSON.stringify(body)}`);
  return body;
}

const pullOf = (pull: z.output<typeof pullSchema>): ForgePull => ({
  number: pull.number,
  title: pull.title,
  body: pull.body,
  state: pull.merged ? 'merged' : pull.state,
  isDraft: pull.draft,
  author: pull.user.login,
  url: pull.html_url,
  head: pull.head.ref,
  base: pull.base.ref,
  headCommit: pull.head.sha,
});

/** Pushes one commit of these files to main; the token is in no argument. */
async function pushTree(files: Tree, remote: string, authorization: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'forge-files-'));
  try {
    await run('git', ['-C', repositoryOf(folder, files), 'push', '--quiet', remote, 'main'], {
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        no_proxy: '*',
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'http.extraHeader',
        GIT_CONFIG_VALUE_0: `Authorization: ${authorization}`,
      },
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
