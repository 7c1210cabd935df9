import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GitServer } from '../support/git-server.ts';
import { Installation, saying } from '../support/installation.ts';

const credential = 'bot:s3cret-of-all';

describe('an installation with a git host', () => {
  let host: GitServer;
  let up: Installation;
  const folder = mkdtempSync(join(tmpdir(), 'git-credentials-'));
  beforeAll(async () => {
    host = await GitServer.start({
      repositories: { 'acme/shop': { branches: ['trunk'], head: 'trunk' }, 'acme/secret': {} },
      readers: { 'acme/secret': [credential] },
    });
    writeFileSync(join(folder, 'forgejo'), credential);
    up = await Installation.start({ env: { GIT_HOSTS: JSON.stringify({ forgejo: host.url }), GIT_CREDENTIALS_DIR: folder } });
  }, 30_000);
  afterAll(async () => {
    await up.stop();
    await host.stop();
    rmSync(folder, { recursive: true });
  });

  it('clones what is there, and refuses what is not', async () => {
    const task = await up.over((await up.start('Hello.', { selected_repository: 'acme/shop' })).id);
    expect(task).toMatchObject({ status: 'READY', error: null });
    const refused = await up.call('POST', '/api/v1/app-conversations', { ...saying('Hello.'), selected_repository: 'acme/none' });
    expect(refused).toMatchObject({ status: 403, body: { code: 'repository-access-denied' } });
  });

  it('finds what its credentials open, and keeps them to itself', async () => {
    const { body } = await up.call('GET', '/api/v1/git/repositories/search?query=acme/secret');
    expect(body).toMatchObject({ items: [{ full_name: 'acme/secret', is_public: false, main_branch: 'main' }] });
    expect(JSON.stringify(body) + up.output).not.toContain('s3cret');
  });
});
