import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { repositoryOf, type Tree } from './git-tree.ts';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly protocol: string | undefined;
}

export interface GitServerOptions {
  /** Port; by default any that is free. */
  readonly port?: number;
  /** The end of the path in its URL: /scm. */
  readonly prefix?: string;
  /**
   * By name: branches, tags and HEAD, with an empty commit; or these files in a commit on main; or
   * all of another one, by its folder.
   */
  readonly repositories: Readonly<
    Record<
      string,
      {
        readonly branches?: readonly string[];
        readonly tags?: readonly string[];
        readonly head?: string;
        readonly files?: Tree;
        readonly from?: string;
      }
    >
  >;
  /** `user:password` of the readers of a repository; a repository that is not here is public. */
  readonly readers?: Readonly<Record<string, readonly string[]>>;
  /** Whether files alone are served, as by any web server. */
  readonly isPlain?: boolean;
  /** Whether the protocol is of version 0, whatever a client requests. */
  readonly isOld?: boolean;
}

/** How it answers for a repository unless it returns `asUsual`; a hang ends with the server. */
export type Fault = (request: IncomingMessage, response: ServerResponse) => unknown;
export const asUsual = Symbol('as usual');

const git = (args: readonly string[], input?: string) =>
  execFileSync('git', args, {
    input,
    env: {
      PATH: process.env['PATH'],
      HOME: '/nonexistent',
      GIT_CONFIG_NOSYSTEM: '1',
      ...Object.fromEntries(
        ['AUTHOR', 'COMMITTER'].flatMap((who) => [
          [`GIT_${who}_NAME`, 'test'],
          [`GIT_${who}_EMAIL`, 'test@localhost'],
        ]),
      ),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
    .toString()
    .trim();

/** Resolves once more can be written, or nothing any more. */
const roomIn = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const go = () => {
      response.off('drain', go).off('close', go);
      resolve();
    };
    response.once('drain', go).once('close', go);
  });

/** A git host: `git http-backend` behind HTTP, with passwords as one has them. */
export class GitServer {
  readonly #folder = mkdtempSync(join(tmpdir(), 'git-server-'));
  readonly #options: GitServerOptions;
  readonly #server: Server;
  readonly requests: SeenRequest[] = [];
  readonly faults = new Map<string, Fault>();
  /** Promises for which answers with objects of a repository wait, once they have begun. */
  readonly gates = new Map<string, Promise<void>>();
  /** How many answers wait for such a promise. */
  held = 0;
  /** Commit of the first branch, by repository. */
  readonly commits = new Map<string, string>();
  readers: Record<string, readonly string[]>;

  private constructor(options: GitServerOptions) {
    this.#options = options;
    this.readers = { ...options.readers };
    for (const [
      name,
      { branches = ['main'], tags = [], head = 'main', files, from: source },
    ] of Object.entries(options.repositories)) {
      const from = source ?? (files && repositoryOf(this.#folder, files));
      const path = join(this.#folder, `${name}.git`);
      if (from !== undefined) {
        git(['clone', '--quiet', '--mirror', from, path]);
        continue;
      }
      git(['init', '--quiet', '--bare', '--initial-branch', head, path]);
      if (branches.length > 0) {
        const tree = git(['-C', path, 'mktree'], '');
        const commit = git(['-C', path, 'commit-tree', '-m', name, tree]);
        this.commits.set(name, commit);
        git(
          ['-C', path, 'update-ref', '--stdin'],
          branches.map((branch) => `create refs/heads/${branch} ${commit}\n`).join(''),
        );
        for (const tag of tags)
          git(['-C', path, 'tag', '--annotate', '--message', tag, tag, commit]);
      }
      if (options.isPlain === true) git(['-C', path, 'update-server-info']);
    }
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  static async start(options: GitServerOptions): Promise<GitServer> {
    const server = new GitServer(options);
    server.#server.listen(options.port ?? 0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}${this.#options.prefix ?? ''}`;
  }

  folderOf(name: string): string {
    return join(this.#folder, `${name}.git`);
  }

  /** The requests about a repository since the last call. */
  taken(): readonly SeenRequest[] {
    return this.requests.splice(0);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '', headers } = request;
    const { authorization } = headers;
    const protocol = headers['git-protocol'];
    this.requests.push({
      method,
      url,
      authorization,
      protocol: typeof protocol === 'string' ? protocol : undefined,
    });
    const { pathname, search } = new URL(url, this.origin);
    const { prefix = '' } = this.#options;
    const path = pathname.slice(prefix.length);
    const name = /^\/(.+)\.git\//.exec(path)?.[1] ?? '';
    const fault = this.faults.get(name);
    if (fault !== undefined && fault(request, response) !== asUsual) return;
    const [type = '', credential = ''] = authorization?.split(' ') ?? [];
    const reader = type === 'Basic' ? Buffer.from(credential, 'base64').toString() : undefined;
    const readers = this.readers[name];
    const isKnown =
      reader === undefined || Object.values(this.readers).some((known) => known.includes(reader));
    // As with GitHub: no user learns which names exist, and a user without access gets the answer
    // that nothing exists.
    if (
      !pathname.startsWith(prefix) ||
      !isKnown ||
      (reader === undefined &&
        (readers !== undefined || !Object.hasOwn(this.#options.repositories, name)))
    ) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('Who are you?');
    } else if (readers !== undefined && !readers.includes(reader ?? '')) {
      response.writeHead(404).end('Not found');
    } else if (this.#options.isPlain === true) {
      this.#sendFile(path, response);
    } else {
      this.#runBackend(request, response, { path, query: search.slice(1), reader });
    }
  }

  #sendFile(path: string, response: ServerResponse): void {
    try {
      response.writeHead(200).end(readFileSync(join(this.#folder, path)));
    } catch {
      response.writeHead(404).end();
    }
  }

  #runBackend(
    request: IncomingMessage,
    response: ServerResponse,
    {
      path,
      query,
      reader,
    }: {
      readonly path: string;
      readonly query: string;
      /** Everybody who may read a private repository may push to it. */
      readonly reader: string | undefined;
    },
  ): void {
    const protocol = request.headers['git-protocol'];
    const child = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env['PATH'],
        HOME: '/nonexistent',
        GIT_PROJECT_ROOT: this.#folder,
        GIT_HTTP_EXPORT_ALL: '1',
        ...(reader === undefined ? {} : { REMOTE_USER: 'reader' }),
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers['content-type'],
        CONTENT_LENGTH: request.headers['content-length'],
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
        GIT_PROTOCOL: this.#options.isOld === true || typeof protocol !== 'string' ? '' : protocol,
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    request.pipe(child.stdin);
    child.stdin.on('error', () => undefined);
    const name = /^\/(.+)\.git\//.exec(path)?.[1] ?? '';
    void this.#relay(
      child.stdout,
      response,
      request.method === 'POST' ? this.gates.get(name) : undefined,
    );
    response.once('close', () => child.kill());
  }

  /** Streams an answer of CGI to HTTP. */
  async #relay(
    output: Readable,
    response: ServerResponse,
    gate: Promise<void> | undefined,
  ): Promise<void> {
    let head: Buffer | undefined = Buffer.alloc(0);
    for await (const chunk of output as AsyncIterable<Buffer>) {
      if (head === undefined) {
        if (!response.write(chunk)) await roomIn(response);
        continue;
      }
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) continue;
      const fields = head
        .toString('latin1', 0, end)
        .split('\r\n')
        .map((line): [string, string] => {
          const colon = line.indexOf(':');
          return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
        });
      const { status = '200', ...headers } = Object.fromEntries(fields);
      response.writeHead(Number.parseInt(status, 10), headers);
      response.write(head.subarray(end + 4));
      head = undefined;
      if (gate === undefined) continue;
      this.held += 1;
      await gate;
      this.held -= 1;
    }
    response.end();
  }
}
