import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface GitServer {
  /** Base URL of its repositories. */
  readonly url: string;
  close(): void;
}

const who = {
  GIT_AUTHOR_NAME: 'test',
  GIT_AUTHOR_EMAIL: 'test@localhost',
  GIT_COMMITTER_NAME: 'test',
  GIT_COMMITTER_EMAIL: 'test@localhost',
};

/** Git over HTTP, as hosts serve it, with one repository: `name`, with these files on its branch main. */
export async function startGitServer(name: string, files: Readonly<Record<string, string>>): Promise<GitServer> {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-operator-git-'));
  const tree = join(folder, 'tree');
  const environment = { PATH: process.env['PATH'], HOME: folder, ...who };
  const git = (...args: string[]) => execFileSync('git', args, { cwd: tree, env: environment, stdio: 'pipe' });
  mkdirSync(tree);
  for (const [path, text] of Object.entries(files)) writeFileSync(join(tree, path), text);
  git('init', '--quiet', '--initial-branch', 'main');
  git('add', '.');
  git('commit', '--quiet', '--message', 'first');
  git('clone', '--quiet', '--bare', tree, join(folder, 'repositories', `${name}.git`));
  const server = createServer((request, response) =>
    answer(request, response, { ...environment, GIT_PROJECT_ROOT: join(folder, 'repositories') }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** By git's own CGI program (RFC 3875). */
function answer(request: IncomingMessage, response: ServerResponse, environment: NodeJS.ProcessEnv): void {
  const { pathname, search } = new URL(request.url ?? '/', 'http://git');
  const backend = spawn('git', ['http-backend'], {
    env: {
      ...environment,
      GIT_HTTP_EXPORT_ALL: '1',
      REQUEST_METHOD: request.method,
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      CONTENT_TYPE: request.headers['content-type'],
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  backend.stdin.on('error', () => undefined);
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  backend.once('close', () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf('\r\n\r\n');
    for (const line of output.subarray(0, end).toString().split('\r\n')) {
      const [name = '', value = ''] = line.split(/: (.*)/);
      if (name === 'Status') response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(output.subarray(end + 4));
  });
}
