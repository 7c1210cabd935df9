import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { createCodec } from '../../../src/archive/codec.ts';
import { extendArchive } from '../../../src/archive/extend.ts';
import { writerOf } from '../../../src/archive/installation.ts';
import { keyOf } from '../../../src/archive/layout.ts';
import { newestState } from '../../../src/archive/stored-archives.ts';
import { agentLog, eventJson, eventOf } from '../../support/archive/agent-log.ts';

const address = { namespace: 'agents', uid: 'c0ffee' };
const codec = createCodec({ keys: new SandboxKeys([Buffer.alloc(32, 7)]), encrypt: false });
const { signal } = new AbortController();
const segment = `${'0'.repeat(9)}1-${'a'.repeat(24)}`;

/** An archive in a folder. `change` gets the path of its head, and that of all of them. */
async function archiveWith(change: (head: string, heads: string) => Promise<void>) {
  const directory = await mkdtemp(join(tmpdir(), 'archive-writer-'));
  const store = createFolderStore({ directory });
  const log = agentLog();
  log.events.push(eventOf(eventJson('e0')));
  const state = await extendArchive(address, undefined, {
    store,
    codec,
    source: log.source,
    signal,
    installation: 'key/uid',
    maxBytes: Infinity,
    maxEvents: Infinity,
  });
  await store.put(keyOf(address, 's', segment), Buffer.from('x'));
  const head = join(directory, keyOf(address, 'h', state.head ?? ''));
  await change(head, join(head, '..'));
  return {
    writer: () => writerOf({ store, codec }, address),
    newest: () => newestState({ store, codec }, address, undefined),
    async [Symbol.asyncDispose]() {
      await store.close();
      await rm(directory, { recursive: true });
    },
  };
}

describe('the writer of an archive', () => {
  it.each<[string, string, (head: string, heads: string) => Promise<void>]>([
    ['is named by its head', 'known', () => Promise.resolve()],
    [
      'is not known where the head is behind a link',
      'unreadable',
      async (head) => {
        await rename(head, `${head}~`);
        await symlink(`${head}~`, head);
      },
    ],
    [
      'is not known where the heads are behind a link',
      'unreadable',
      async (_head, heads) => {
        await rename(heads, `${heads}~`);
        await symlink(`${heads}~`, heads);
      },
    ],
    [
      'is not known where the head has another name',
      'unreadable',
      (head) => rename(head, `${head}.old`),
    ],
    [
      'is not known where a folder has the name of a head',
      'unreadable',
      async (head) => {
        await rm(head);
        await mkdir(head);
        await writeFile(join(head, 'part'), 'x');
      },
    ],
    [
      'has ended where there is no head',
      'headless',
      (_head, heads) => rm(heads, { recursive: true }),
    ],
  ])('%s', async (_case, kind, change) => {
    await using archive = await archiveWith(change);
    expect((await archive.writer()).kind).toBe(kind);
  });

  it('leaves a head that is behind a link, so that no other archive is begun', async () => {
    await using archive = await archiveWith(async (head) => {
      await rename(head, `${head}~`);
      await symlink(`${head}~`, head);
    });
    await expect(archive.newest()).rejects.toMatchObject({ code: 'invalid' });
  });
});
