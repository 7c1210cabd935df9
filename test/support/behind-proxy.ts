import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { startFakeS3, type FakeS3 } from '../../packages/object-store/test/fake-s3.ts';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { eventually } from './eventually.ts';
import type { Installation } from './installation.ts';
import { kubectl } from './kubectl.ts';
import { leaksIn, type Secrets } from './leaks.ts';
import { startOutside, type Outside } from './outside.ts';
import { privateAuthority } from './private-authority.ts';

/** The host of the archive's bucket. */
export const storeHost = 's3.example.test';
const user = 'user:pr0xy-p4ss';
const bucketKeys = {
  'access-key-id': 'AKIDOUTSIDE',
  'secret-access-key': 's3-s3cret-of-the-bucket',
};

const listSchema = z.object({
  items: z.array(z.object({ kind: z.string(), metadata: z.object({ uid: z.string() }) })),
});
const eventsSchema = z.object({ items: z.array(z.unknown()) });

/** Hosts and an archive's bucket behind a proxy, with certificates of a private authority. */
export interface BehindProxy extends AsyncDisposable {
  readonly proxy: Outside;
  readonly store: FakeS3;
  /** Settings of an installation in this network, which archives into the bucket. */
  readonly env: Readonly<Record<string, string>>;
  /** The first events of a conversation, from wherever the gateway reads them. */
  events(up: Installation, id: string): Promise<readonly unknown[]>;
  /** Expects that a paused conversation is archived, and its events are read from the bucket. */
  expectArchived(up: Installation, id: string, live: readonly unknown[]): Promise<void>;
  /**
   * Expects that the proxy was asked for tunnels to these hosts and the bucket alone, and has seen
   * none of these secrets and no key of the installation and its present sandboxes. `refused`:
   * hosts that an agent may have asked for by itself, in vain.
   */
  expectNothingSeen(
    up: Installation,
    seen: {
      readonly hosts: readonly string[];
      readonly refused?: readonly string[];
      readonly secrets: Secrets;
    },
  ): Promise<void>;
}

/** URLs of plain servers by the names that they have behind the proxy. */
export async function startBehindProxy(
  hosts: Readonly<Record<string, string>>,
): Promise<BehindProxy> {
  const authority = privateAuthority([...Object.keys(hosts), storeHost]);
  const store = await startFakeS3();
  const { 'access-key-id': id, 'secret-access-key': secretAccessKey } = bucketKeys;
  store.credentials.set(id, { secretAccessKey });
  const proxy = await startOutside({
    authority,
    https: { ...hosts, [storeHost]: store.url },
    user,
  });
  const folder = mkdtempSync(join(tmpdir(), 'behind-proxy-'));
  const keyFolder = join(folder, 's3');
  mkdirSync(keyFolder);
  for (const [name, text] of Object.entries(bucketKeys)) writeFileSync(join(keyFolder, name), text);
  writeFileSync(join(folder, 'ca.crt'), authority.ca);
  const url = `http://${user}@127.0.0.1:${proxy.port}`;

  return {
    proxy,
    store,
    env: {
      // Where both name it, every request that is not sent directly reaches the proxy.
      HTTPS_PROXY: url,
      HTTP_PROXY: url,
      TRUST_FILE: join(folder, 'ca.crt'),
      ARCHIVE_S3_BUCKET: store.bucket,
      ARCHIVE_S3_ENDPOINT: `https://${storeHost}`,
      ARCHIVE_S3_REGION: 'eu-test-1',
      ARCHIVE_S3_CREDENTIALS_DIR: keyFolder,
    },
    events: eventsOf,
    async expectArchived(up, conversation, live) {
      const reason = 'jsonpath={.status.conditions[?(@.type=="Archived")].reason}';
      await k(
        up,
        'wait',
        `conversation/${conversation}`,
        `--for=${reason}=Complete`,
        '--timeout=60s',
      );
      // The agent answers until its pod ends, which may be later.
      const archived = await eventually('the gateway reads the bucket', async () => {
        store.seen.length = 0;
        const events = await eventsOf(up, conversation);
        return store.seen.some(({ method }) => method === 'GET') && events;
      });
      // An agent may add an event when it is interrupted.
      expect(archived.slice(0, live.length)).toEqual(live);
    },
    async expectNothingSeen(up, { hosts: asked, refused = [], secrets }) {
      const tunnelTo = (host: string) => `CONNECT ${host}:443`;
      const own = new Set(refused.map(tunnelTo));
      expect(new Set(proxy.requests.filter((request) => !own.has(request)))).toEqual(
        new Set([...asked, storeHost].map(tunnelTo)),
      );
      const all = { ...bucketKeys, ...(await keysOf(up)), ...secrets };
      expect(Object.entries(all).filter(([, secret]) => secret.length < 8)).toEqual([]);
      const seen = withDecoded(proxy.bytes());
      // The scan finds what there is.
      expect(leaksIn(seen, { 'user of the proxy': user })).toEqual(['user of the proxy']);
      expect(leaksIn(seen, all)).toEqual([]);
      // A clone token, of any sandbox.
      expect(seen).not.toMatch(/\d{10}\.[\w-]{43}/);
    },
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function k({ kubeconfig }: Installation, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await kubectl(kubeconfig, args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

async function eventsOf(up: Installation, id: string): Promise<readonly unknown[]> {
  const path = `/api/v1/conversation/${id}/events/search?limit=100`;
  return eventsSchema.parse((await up.call('GET', path)).body).items;
}

/** The keys of an installation, and those that its sandboxes and their clients have. */
async function keysOf(up: Installation): Promise<Secrets> {
  const masterKey = Buffer.from(readFileSync(join(up.dataDir, 'master-key'), 'utf8'), 'hex');
  const keys = new SandboxKeys([masterKey]);
  const listed = listSchema.parse(
    JSON.parse(await k(up, 'get', 'sandboxes,apikeys', '-o', 'json')),
  );
  const uidsOf = (kind: string) =>
    listed.items.filter((item) => item.kind === kind).map(({ metadata }) => metadata.uid);
  const [apiKeyUids, sandboxUids] = [uidsOf('ApiKey'), uidsOf('Sandbox')];
  // A scan for too little would find nothing either.
  for (const uids of [apiKeyUids, sandboxUids]) expect(uids).not.toEqual([]);
  return {
    'API key': up.key,
    'master key': masterKey,
    'key of notifications': keys.notificationKey(),
    'API token': /token: (\S+)/.exec(readFileSync(up.kubeconfig, 'utf8'))?.[1] ?? '',
    ...Object.fromEntries(
      sandboxUids.flatMap((uid): [string, Secrets[string]][] => [
        [`session key of ${uid}`, keys.sessionKey(uid)],
        [`secret key of ${uid}`, keys.secretKey(uid)],
        [`bootstrap key of ${uid}`, keys.bootstrapKey(uid)],
        [`git token of ${uid}`, keys.gitToken(uid)],
        [`tools token of ${uid}`, keys.toolsToken(uid)],
        [`secrets token of ${uid}`, keys.secretsToken(uid)],
        ...apiKeyUids.map((apiKeyUid): [string, Secrets[string]] => [
          `session key of ${uid} for ${apiKeyUid}`,
          keys.clientKey(uid, { apiKeyUid, generation: 0 }),
        ]),
      ]),
    ),
  };
}

/** A text, and what its parts in Base64 say: a user and a password are encoded together. */
const withDecoded = (text: string): string =>
  [
    text,
    ...(text.match(/[\w+/-]{8,}={0,2}/g) ?? []).map((part) =>
      Buffer.from(part, 'base64').toString('latin1'),
    ),
  ].join('\n');
