import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { unpackWebUi, webUiArchive } from '../../../build/web-ui.ts';

const cache = fileURLToPath(new URL('../../../.cache/web-ui/', import.meta.url));

/** A new folder with the published build of the official web UI. */
export function webUiFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'web-ui-'));
  unpackWebUi(webUiArchive({ cache }), folder);
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

/** A static server for a single-page app: files, and `index.html` for every other path. */
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
