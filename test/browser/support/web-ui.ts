import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { dirname, extname, join } from 'node:path';

const name = '@openhands/agent-canvas';
const version = '1.20.0';
/** As the registry has it. */
const integrity =
  'sha512-uq28bmdMapsDN0ltp5ZHYm9xfuk7cHktNkd0NY38w/UTq25wJTqSKSPya+2+ky0+HpGX2vmn0uF3mHuNCoOb2w==';
const cache = join(
  process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
  'conversation-operator',
);

/**
 * The folder of the official web UI as its makers have built it. The web UI can't be a dependency:
 * some of its own dependencies are not in the registry. Fetched and checked once, then kept.
 */
export function webUiFolder(): string {
  const folder = join(cache, 'web-ui', version);
  if (existsSync(folder)) return join(folder, 'build');
  mkdirSync(dirname(folder), { recursive: true });
  const work = mkdtempSync(join(dirname(folder), 'unpack-'));
  try {
    // An own folder to be called in, because of npm's settings in ours.
    const [archive = ''] = execFileSync('npm', ['pack', '--silent', `${name}@${version}`], {
      cwd: work,
      encoding: 'utf8',
    })
      .trim()
      .split('\n')
      .slice(-1);
    const path = join(work, archive);
    const found = `sha512-${createHash('sha512').update(readFileSync(path)).digest('base64')}`;
    if (found !== integrity)
      throw new Error(`${name}@${version} is another one than it was: ${found}`);
    execFileSync('tar', ['-xzf', path, '-C', work, 'package/build', 'package/package.json']);
    renameSync(join(work, 'package'), folder);
  } catch (error) {
    // The first process wins; the content is the same.
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return join(folder, 'build');
}

const mediaTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};

export interface StaticServer {
  readonly url: string;
  close(): void;
}

/**
 * A static server for an app of one page: files as they are, and `index.html` for every other path.
 */
export async function serveFolder(folder: string): Promise<StaticServer> {
  const send = (response: ServerResponse, path: string) => {
    response.setHeader('content-type', mediaTypes[extname(path)] ?? 'application/octet-stream');
    response.end(readFileSync(path));
  };
  const server = createServer((request, response) => {
    // A URL's path has no `..` left in it.
    const path = join(
      folder,
      decodeURIComponent(new URL(request.url ?? '/', 'http://ui').pathname),
    );
    if (request.method !== 'GET') response.writeHead(405).end();
    else
      send(response, extname(path) !== '' && existsSync(path) ? path : join(folder, 'index.html'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
