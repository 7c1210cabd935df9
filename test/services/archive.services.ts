import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { keysOf, listAll } from '../../packages/object-store/test/store-contract.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import {
  archiveSettings,
  ArchiveScene,
  commands,
  manyCommands,
  pauseTimeoutSeconds,
  writeCredentials,
} from './support/archive-scene.ts';
import { startS3Server, type S3Server } from './support/s3-server.ts';

const testMs = 240_000;
/** Maximum time of a pause, with the end of the pod, in milliseconds. */
const maxPauseMs = pauseTimeoutSeconds * 1000 + 60_000;

let server: S3Server;
let folder: string;
const installations: Installation[] = [];
const secrets = new Set<string>();

beforeAll(async () => {
  server = await startS3Server();
  secrets.add(server.credentials.secretAccessKey);
  folder = await mkdtemp(join(tmpdir(), 'archive-services-'));
});
afterAll(async () => {
  await Promise.all(installations.map((up) => up.stop()));
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
  const logs = installations.map(({ output }) => output).join('\n');
  expect(logs).not.toBe('');
  expect([...secrets].filter((secret) => logs.includes(secret))).toEqual([]);
});

async function start(
  settings: Readonly<Record<string, string>>,
  dataDir?: string,
): Promise<ArchiveScene> {
  const up = await Installation.start({
    env: settings,
    ...(dataDir === undefined ? {} : { dataDir }),
  });
  installations.push(up);
  const scene = new ArchiveScene(up, settings);
  const limit = JSON.stringify({ spec: { limit: 20 } });
  await scene.k('patch', 'conversationquota', 'default', '--type', 'merge', '-p', limit);
  return scene;
}

describe('an installation with an archive in a bucket of a real server', () => {
  const bucket = 'histories';
  let scene: ArchiveScene;
  let settings: Awaited<ReturnType<typeof archiveSettings>>;
  let store: ObjectStore;
  const objectsOf = async (uid: string) =>
    keysOf(await listAll(store, { prefix: `default/${uid}/` }));

  beforeAll(async () => {
    await server.newBucket(bucket);
    settings = await archiveSettings(server, bucket, { folder });
    store = server.store({ bucket, prefix: settings.ARCHIVE_S3_PREFIX });
    scene = await start(settings);
  });
  afterAll(async () => {
    await store.close();
  });

  it(
    'reads of a paused conversation what the agent has shown, over several segments',
    async () => {
      const { id, sandbox } = await scene.finished(manyCommands(120));
      const live = await scene.events(id);
      expect(live.length).toBeGreaterThan(240);
      await scene.paused(sandbox);
      await scene.reaches(id, 'Complete');
      expect(await scene.events(id)).toEqual(live);
      expect(await scene.archivedEvents(id)).toBe(live.length);
      const objects = await objectsOf(await scene.uid(id));
      expect(objects.filter((key) => key.includes('/s/')).length).toBeGreaterThan(0);
      expect(objects.filter((key) => key.includes('/h/'))).toHaveLength(1);
      const count = await scene.up.call('GET', `/api/v1/conversation/${id}/events/count`);
      expect(count.body).toBe(live.length);
      const ids = [live.at(-1)?.id ?? '', 'none', live[0]?.id ?? ''];
      const byIds = `/api/v1/conversation/${id}/events?${ids.map((each) => `id=${each}`).join('&')}`;
      const ofArchive = await scene.up.call('GET', byIds);
      expect(ofArchive.body).toEqual([live.at(-1), null, live[0]]);

      await scene.resumed(id, sandbox);
      expect((await scene.up.call('GET', byIds)).body).toEqual(ofArchive.body);
      await scene.up.call('POST', `/api/v1/app-conversations/${id}/send-message`, {
        content: [{ type: 'text', text: commands('echo later') }],
      });
      await eventually('it has worked', async () =>
        JSON.stringify((await scene.events(id)).slice(live.length)).includes('later\\n'),
      );
      await scene.up.reaches(id, { execution_status: 'finished' });
      const later = await scene.events(id);
      expect(later.slice(0, live.length)).toEqual(live);
      await scene.paused(sandbox);
      await scene.reaches(id, 'Complete');
      expect(await scene.events(id)).toEqual(later);
      expect(await scene.exported(id)).toEqual(later);
      expect((await scene.verified()).get(id)).toBe(`intact ${later.length}`);
    },
    testMs,
  );

  it(
    'starts, works and pauses while the server is killed, and loses nothing that was sealed',
    async () => {
      const sealed = await scene.finished(manyCommands(20));
      const seen = await scene.events(sealed.id);
      await scene.paused(sealed.sandbox);
      await scene.reaches(sealed.id, 'Complete');
      const steps = Array.from({ length: 150 }, (_, index) => `echo step ${index}; sleep 0.2`);
      const working = await scene.started(commands(...steps));
      await scene.reaches(working.id, 'Following');
      const failures = await scene.metric('archive_failures_total', 'StoreUnavailable');

      await server.kill();
      const begun = await scene.finished(commands('echo begun without a store'));
      expect(await scene.paused(begun.sandbox)).toBeLessThan(maxPauseMs);
      await scene.reaches(begun.id, 'StoreUnavailable');
      await scene.reaches(working.id, 'StoreUnavailable');
      expect(await scene.metric('archive_failures_total', 'StoreUnavailable')).toBeGreaterThan(
        failures,
      );
      const read = `/api/v1/conversation/${begun.id}/events/search`;
      expect(await scene.up.call('GET', read)).toMatchObject({
        // The store may have what the status does not name.
        status: 503,
        body: { code: 'archive-unavailable' },
      });

      await server.restart();
      expect(await scene.events(sealed.id)).toEqual(seen);
      await scene.reaches(working.id, 'Following');
      await scene.resumed(begun.id, begun.sandbox);
      await scene.reaches(begun.id, 'Following');
      await scene.up.reaches(working.id, { execution_status: 'finished' }, 90_000);
      for (const { id, sandbox } of [working, begun]) {
        const live = await scene.events(id);
        await scene.paused(sandbox);
        await scene.reaches(id, 'Complete');
        expect(await scene.events(id)).toEqual(live);
        expect(await scene.exported(id)).toEqual(live);
      }
      for (const [name, state] of await scene.verified())
        expect(`${name} ${state}`).toBe(`${name} intact ${await scene.archivedEvents(name)}`);
    },
    testMs,
  );

  it.each<[string, () => Promise<void> | void, () => Promise<void> | void]>([
    ['is killed', () => server.kill(), () => server.restart()],
    ['hangs', () => server.hang(), () => server.wake()],
  ])(
    'ends pauses in time where the server %s in the middle of them',
    async (_what, fail, heal) => {
      const three = await Promise.all([1, 2, 3].map(() => scene.finished(manyCommands(60))));
      const live = await Promise.all(three.map(({ id }) => scene.events(id)));
      const pauses = three.map(({ sandbox }) => scene.paused(sandbox));
      await eventually('a pause to begin', async () =>
        (await scene.k('get', 'sandbox', '-o', 'jsonpath={.items[*].spec.replicas}')).includes('0'),
      );
      await fail();
      for (const tookMs of await Promise.all(pauses)) expect(tookMs).toBeLessThan(maxPauseMs);
      await heal();
      await Promise.all(three.map(({ id, sandbox }) => scene.resumed(id, sandbox)));
      // A pause waits a second for a store that has failed last.
      for (const { id } of three) await scene.reaches(id, 'Following');
      await Promise.all(three.map(({ sandbox }) => scene.paused(sandbox)));
      for (const [index, { id }] of three.entries()) {
        await scene.reaches(id, 'Complete');
        expect(await scene.events(id)).toEqual(live[index]);
      }
      const states = [...(await scene.verified()).values()];
      expect(states.filter((state) => !state.startsWith('intact'))).toEqual([]);
    },
    testMs,
  );

  it(
    'deletes the objects of a deleted conversation, and finds those that a person has put back',
    async () => {
      const { id, sandbox } = await scene.finished(commands('echo to be deleted'));
      await scene.paused(sandbox);
      await scene.reaches(id, 'Complete');
      const uid = await scene.uid(id);
      const kept = await Promise.all(
        (await objectsOf(uid)).map(async (key) => [key, await store.get(key)] as const),
      );
      expect(kept.length).toBeGreaterThan(0);
      await scene.up.call('DELETE', `/api/v1/app-conversations/${id}`);
      await eventually('its objects to be gone', async () => (await objectsOf(uid)).length === 0);

      for (const [key, body] of kept) await store.put(key, body ?? Buffer.alloc(0));
      expect((await scene.archive('verify', uid)).stdout).toContain('orphaned');
      const shown = await scene.archive('prune', '--older-than', '0s');
      expect([shown.code, shown.stdout.trim().split('\n').length]).toEqual([0, 2]);
      expect(shown.stdout).toContain(uid);
      expect(await objectsOf(uid)).toHaveLength(kept.length);
      const { code, stdout } = await scene.archive('prune', '--older-than', '0s', '--delete');
      expect([code, stdout]).toEqual([0, expect.stringContaining(`${uid}  `) as string]);
      expect(await objectsOf(uid)).toEqual([]);
      expect((await scene.archive('prune', '--older-than', '0s')).stderr).toContain('No archive');
    },
    testMs,
  );

  it(
    'continues with the keys that replace those of its folder',
    async () => {
      await server.rotateKeys();
      secrets.add(server.credentials.secretAccessKey);
      const { id, sandbox } = await scene.finished(commands('echo new keys'));
      await scene.paused(sandbox);
      await scene.reaches(id, 'StoreDenied');
      await writeCredentials(settings.ARCHIVE_S3_CREDENTIALS_DIR, server.credentials);
      await scene.resumed(id, sandbox);
      await scene.reaches(id, 'Following');
      const live = await scene.events(id);
      await scene.paused(sandbox);
      await scene.reaches(id, 'Complete');
      expect(await scene.events(id)).toEqual(live);
    },
    testMs,
  );
});

describe('an installation that is killed', () => {
  it(
    'has the whole history after it has started again, and shows what it could not delete',
    async () => {
      const bucket = 'killed';
      await server.newBucket(bucket);
      const settings = await archiveSettings(server, bucket, { folder });
      await using store = disposable(server.store({ bucket, prefix: settings.ARCHIVE_S3_PREFIX }));
      const dataDir = join(folder, 'killed');
      let scene = await start(settings, dataDir);
      const deleted = await scene.finished(commands('echo deleted'));
      await scene.paused(deleted.sandbox);
      await scene.reaches(deleted.id, 'Complete');
      const uid = await scene.uid(deleted.id);
      const steps = Array.from(
        { length: 60 },
        (_, index) => `echo step ${index} >> steps.txt; head -c 9000 /dev/urandom | base64 -w0`,
      );
      const { id, sandbox } = await scene.started(commands(...steps));
      await scene.reaches(id, 'Following');
      await server.kill();
      await scene.up.call('DELETE', `/api/v1/app-conversations/${deleted.id}`);
      await eventually('the conversation to be gone', async () => {
        const names = await scene.k('get', 'conversations', '-o', 'name');
        return !names.includes(deleted.id);
      });
      await scene.up.kill();
      await server.restart();
      expect(keysOf(await listAll(store, { prefix: `default/${uid}/` }))).not.toEqual([]);

      scene = await start(settings, dataDir);
      // The second one ends while the archive grows.
      await scene.reaches(id, 'Following');
      await scene.up.kill();
      scene = await start(settings, dataDir);
      await eventually(
        'the run to be over',
        async () => {
          const { execution_status: status, sandbox_status: of } = await scene.up.conversation(id);
          return of === 'RUNNING' && status !== null && ['finished', 'error'].includes(status);
        },
        120_000,
      );
      const live = await scene.events(id);
      await scene.paused(sandbox);
      await scene.reaches(id, 'Complete');
      expect(await scene.events(id)).toEqual(live);
      expect(await scene.exported(id)).toEqual(live);
      // The first sweep, a minute after the start: one of two archives is an orphan.
      await scene.k(
        ...['wait', 'sandboxtemplates', '--all', '--for=condition=ArchivesSwept=False'],
        '--timeout=120s',
      );
      expect(keysOf(await listAll(store, { prefix: `default/${uid}/` }))).not.toEqual([]);
      const pruned = await scene.archive('prune', uid, '--older-than', '0s', '--delete');
      expect([pruned.code, pruned.stderr]).toEqual([0, '']);
      expect(keysOf(await listAll(store, { prefix: `default/${uid}/` }))).toEqual([]);
      expect([...(await scene.verified())]).toEqual([[id, `intact ${live.length}`]]);
    },
    testMs,
  );
});

describe('an installation without rights in its bucket', () => {
  it(
    'starts, works and pauses, and names the reason',
    async () => {
      await server.newBucket('denied');
      const keys = { ...server.credentials, secretAccessKey: 'another-secret-of-the-bucket' };
      secrets.add(keys.secretAccessKey);
      const scene = await start(await archiveSettings(server, 'denied', { folder, keys }));
      const { id, sandbox } = await scene.finished(commands('echo worked'));
      await scene.reaches(id, 'StoreDenied');
      expect(await scene.paused(sandbox)).toBeLessThan(maxPauseMs);
      await scene.reaches(id, 'StoreDenied');
      const lines = scene.up.output.split('\n').filter((line) => line.includes('"StoreDenied"'));
      expect(lines.join('\n')).toContain('The events of a conversation were not archived');
      expect(await scene.metric('archive_failures_total', 'StoreDenied')).toBeGreaterThan(0);
      await scene.resumed(id, sandbox);
      expect(JSON.stringify(await scene.events(id))).toContain('worked\\n');
      expect((await scene.archive('verify')).code).toBe(1);
    },
    testMs,
  );
});

describe('an installation that encrypts its archive', () => {
  /** The texts of all objects of a bucket, as far as they are no secret. */
  const textsIn = async (bucket: string): Promise<string> => {
    const path = server.folderOf(bucket);
    const entries = await readdir(path, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const bodies = await Promise.all(
      files.map(({ parentPath, name }) => readFile(join(parentPath, name))),
    );
    return bodies.map((body) => `${body.toString('latin1')}\n${unpacked(body)}`).join('\n');
  };

  it.each([
    ['true', false],
    ['false', true],
  ])(
    'ARCHIVE_ENCRYPT=%s',
    async (encrypt, isReadable) => {
      const bucket = `encrypt-${encrypt}`;
      await server.newBucket(bucket);
      const settings = {
        ...(await archiveSettings(server, bucket, { folder })),
        ARCHIVE_ENCRYPT: encrypt,
      };
      const scene = await start(settings);
      const { id, sandbox } = await scene.finished(
        `${commands('echo a-plain-text > a-plain-name.txt; cat a-plain-name.txt')}\n${manyCommands(90)}`,
      );
      const live = await scene.events(id);
      expect(JSON.stringify(live)).toContain('a-plain-text\\n');
      await scene.paused(sandbox);
      await scene.reaches(id, 'Complete');
      const texts = await textsIn(bucket);
      for (const text of ['a-plain-text', 'a-plain-name', 'MessageEvent', live.at(-1)?.id ?? ''])
        expect([text, texts.includes(text)]).toEqual([text, isReadable]);
      expect(await scene.events(id)).toEqual(live);
      expect(await scene.exported(id)).toEqual(live);
      expect([...(await scene.verified())]).toEqual([[id, `intact ${live.length}`]]);
    },
    testMs,
  );
});

const frameMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** The texts of the zstd frames in an object, wherever they begin. */
function unpacked(body: Buffer): string {
  const starts: number[] = [];
  for (let at = body.indexOf(frameMagic); at !== -1; at = body.indexOf(frameMagic, at + 1))
    starts.push(at);
  return starts
    .map((start, index) => {
      try {
        return zstdDecompressSync(body.subarray(start, starts[index + 1])).toString();
      } catch {
        // The four bytes occur by chance, or the last frame has something behind it.
        return '';
      }
    })
    .join('\n');
}

const disposable = (store: ObjectStore): ObjectStore & AsyncDisposable => ({
  ...store,
  [Symbol.asyncDispose]: () => store.close(),
});
