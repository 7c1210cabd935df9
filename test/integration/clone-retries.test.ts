import { mkdtempSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PreparationExitCode } from '../../src/controllers/conversation/start/preparation-failures.ts';
import { freePort } from '../support/free-port.ts';
import { asUsual, GitServer } from '../support/git-server.ts';
import { runClone, type CloneWish } from '../support/run-clone.ts';

const folder = mkdtempSync(join(tmpdir(), 'clone-retries-'));
const files = { 'README.md': 'hello\n' };
let host: GitServer;
let gateway: GitServer;
beforeAll(async () => {
  const repositories = { 'acme/shop': { files }, 'acme/secret': { files } };
  // The gateway asks for a ticket, which this server accepts from any user.
  [host, gateway] = await Promise.all([
    GitServer.start({ repositories, readers: { 'acme/secret': ['another:user'] } }),
    GitServer.start({ repositories }),
  ]);
});
afterEach(() => {
  for (const server of [host, gateway]) server.faults.clear();
});
afterAll(async () => {
  await Promise.all([host.stop(), gateway.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function clone({ from = host.url, ...wish }: Partial<CloneWish> = {}) {
  const { project: _, ...result } = await runClone(folder, { from, ...wish });
  return result;
}

/** The next `times` requests for the repository fail, after `after` successful ones. */
function failing(
  server: GitServer,
  name: string,
  { after = 0, times }: { after?: number; times: number },
  how: (to: ServerResponse) => unknown,
) {
  let asked = 0;
  server.faults.set(name, (_request, response) => {
    asked += 1;
    return asked > after && asked <= after + times ? how(response) : asUsual;
  });
}

const done = { code: 0, isThere: true, left: ['steps'] };
const failed = { code: PreparationExitCode.cloneFailed, isThere: false, left: ['steps'] };
const unavailable = (response: ServerResponse) => response.writeHead(503).end();
/** Ends in the middle of an answer: before its first byte, curl would repeat the request. */
const interrupted = (response: ServerResponse) =>
  response
    .writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
    .write('00', () => response.destroy());

describe('a clone', () => {
  it('is tried again while its host has too much to do, and says so', async () => {
    failing(host, 'acme/shop', { times: 3 }, unavailable);
    const { output, ...result } = await clone();
    expect(result).toEqual({ ...done, slept: [1, 2, 4] });
    expect(output).toMatch(
      /returned error: 503\nTrying again in 1 s\.\n[^]*returned error: 503\nTrying again in 2 s\./,
    );
  });

  it.each([
    ['its refs are asked for', 0],
    ['it begins', 2],
    ['its objects come', 4],
  ])('is tried again when the connection breaks while %s', async (_sentence, after) => {
    failing(host, 'acme/shop', { after, times: 1 }, interrupted);
    expect(await clone()).toMatchObject({
      ...done,
      slept: [1],
      output: expect.stringContaining('Trying again in 1 s.') as string,
    });
  });

  it('is given up in the end, with the words of the last attempt', async () => {
    const from = `http://127.0.0.1:${await freePort()}`;
    const { output, ...result } = await clone({ from });
    expect(result).toEqual({ ...failed, slept: [1, 2, 4, 8] });
    expect(output.trim().split('\n').at(-1)).toMatch(/unable to access .*Failed to connect/);
  });

  it('through a gateway that is being replaced is tried again through it, where the host shows nothing without a credential', async () => {
    failing(gateway, 'acme/secret', { times: 2 }, unavailable);
    expect(await clone({ name: 'acme/secret', through: gateway.url })).toMatchObject({
      ...done,
      slept: [1, 2],
    });
  });

  it('through a gateway that breaks off continues through it', async () => {
    failing(gateway, 'acme/secret', { after: 3, times: 1 }, interrupted);
    expect(await clone({ name: 'acme/secret', through: gateway.url })).toMatchObject({
      ...done,
      slept: [1],
    });
  });

  it('of what everybody may read does not wait for a gateway that is away', async () => {
    const through = `http://127.0.0.1:${await freePort()}`;
    expect(await clone({ through })).toMatchObject({ ...done, slept: [] });
  });

  it.each([
    ['that is not there', 'acme/none', PreparationExitCode.accessDenied],
    ['that is not for its owner', 'acme/secret', PreparationExitCode.accessDenied],
  ])('of a repository %s is not tried again', async (_sentence, name, code) => {
    expect(await clone({ name })).toMatchObject({ code, isThere: false, slept: [] });
  });

  it('that is no repository is not tried again', async () => {
    host.faults.set('acme/shop', (_request, response) =>
      response.writeHead(200).end('<html>\n</html>\n'),
    );
    expect(await clone()).toMatchObject({ ...failed, slept: [] });
  });
});
