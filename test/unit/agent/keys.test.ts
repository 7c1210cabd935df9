import { SandboxKeys, referenceIn, sessionReferenceOf } from '../../../src/agent/keys.ts';
import { isDerivedForm } from '../../../src/resources/ids.ts';

const oldKey = Buffer.alloc(32, 1);
const newKey = Buffer.alloc(32, 2);
const goneKey = Buffer.alloc(32, 3);
const uid = '0d6ad0d2-6b8f-4b5b-9d4b-0d8d2f6f3a11';

describe('a clone ticket', () => {
  const grant = { provider: 'github', repository: 'acme/app' };
  const keys = new SandboxKeys([newKey, oldKey]);
  const endMs = 1_800_000_000_000;
  const ticket = new SandboxKeys([oldKey]).cloneTicket(uid, grant, endMs);

  it('is good until its end, under every master key', () => {
    expect(keys.acceptsCloneTicket(uid, grant, ticket, endMs - 1)).toBe(true);
    expect(keys.acceptsCloneTicket(uid, grant, ticket, endMs)).toBe(false);
  });

  it.each([
    ['another sandbox', 'another', grant, ticket],
    ['another repository', uid, { ...grant, repository: 'acme/app2' }, ticket],
    ['another provider', uid, { ...grant, provider: 'gitlab' }, ticket],
    ['what only resembles it', uid, { provider: 'github/acme', repository: 'app' }, `${ticket}x`],
    ['nothing', uid, grant, ''],
    ['a later end', uid, grant, ticket.replace('1800000000', '1900000000')],
    ['an end in another form', uid, grant, ticket.replace('1800000000', '01800000000')],
  ])('is not good for %s', (_sentence, sandbox, wanted, shown) => {
    expect(keys.acceptsCloneTicket(sandbox, wanted, shown, 0)).toBe(false);
  });
});

describe('a git token', () => {
  const keys = new SandboxKeys([newKey, oldKey]);
  const token = new SandboxKeys([oldKey]).gitToken(uid);

  it('is good under every master key, and stays what it is when a new one comes in front', () => {
    expect(keys.acceptsGitToken(uid, token)).toBe(true);
    expect(keys.acceptsGitToken(uid, keys.gitToken(uid))).toBe(true);
    expect(keys.gitToken(uid, new SandboxKeys([oldKey]).currentKeyId)).toBe(token);
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
  });

  it.each([
    ['another sandbox', 'another', token],
    ['nothing', uid, ''],
    ['what only begins like it', uid, `${token}x`],
    ['a part of it', uid, token.slice(1)],
    ['another key of the sandbox', uid, keys.secretKey(uid)],
    ['a clone ticket', uid, keys.cloneTicket(uid, { provider: 'a', repository: 'b/c' }, 1)],
    ['the token of a master key that is gone', uid, new SandboxKeys([goneKey]).gitToken(uid)],
  ])('is not good for %s', (_sentence, sandbox, shown) => {
    expect(keys.acceptsGitToken(sandbox, shown)).toBe(false);
  });
});

describe('the keys of a sandbox', () => {
  it('are the same in every process', () => {
    expect(new SandboxKeys([oldKey]).sessionKey(uid)).toBe(
      'jiRjfNsOg0d0m79MpZTbgopzaCyUIBW9VG_8oc7c_BU',
    );
  });

  it('differ by purpose and by sandbox', () => {
    const keys = new SandboxKeys([oldKey]);
    const all = [uid, 'another'].flatMap((each) => [
      keys.sessionKey(each),
      keys.secretKey(each),
      keys.bootstrapKey(each),
      keys.gitToken(each),
    ]);
    expect(new Set(all).size).toBe(8);
  });

  it('stay as they are for a living sandbox when a new master key comes in front', () => {
    const before = new SandboxKeys([oldKey]);
    const after = new SandboxKeys([newKey, oldKey]);
    const keyId = before.currentKeyId;
    expect(after.secretKey(uid, keyId)).toBe(before.secretKey(uid));
    expect(after.sessionKey(uid, keyId)).toBe(before.sessionKey(uid));
    expect(after.sessionKey(uid)).not.toBe(before.sessionKey(uid));
    expect(after.currentKeyId).not.toBe(keyId);
  });

  it('follow the master keys also where they were asked for before', () => {
    const keys = new SandboxKeys([oldKey]);
    const [keyId, before] = [keys.currentKeyId, keys.sessionKey(uid)];
    keys.replace([newKey]);
    expect(keys.sessionKey(uid)).toBe(new SandboxKeys([newKey]).sessionKey(uid));
    expect(keys.sessionKey(uid)).not.toBe(before);
    expect(() => keys.sessionKey(uid, keyId)).toThrow('is not among those given');
  });

  it.each([
    ['no master key', () => new SandboxKeys([]), 'at least one'],
    ['a short master key', () => new SandboxKeys([Buffer.alloc(16)]), 'at least 32 bytes'],
    ['an empty uid', () => new SandboxKeys([oldKey]).sessionKey(''), 'uid'],
    [
      'a master key that is gone',
      () => new SandboxKeys([newKey]).secretKey(uid, new SandboxKeys([oldKey]).currentKeyId),
      'not among',
    ],
  ])('are refused for %s', (_name, act, message) => {
    expect(act).toThrow(message);
  });
});

describe("a client's key", () => {
  const keys = new SandboxKeys([oldKey]);
  const grant = { apiKeyUid: 'api-key', generation: 0 };

  it('is another one for each sandbox, API key, generation and master key, and none of the agent', () => {
    const all = [
      keys.clientKey(uid, grant),
      keys.clientKey('another', grant),
      keys.clientKey(uid, { ...grant, apiKeyUid: 'another' }),
      keys.clientKey(uid, { ...grant, generation: 1 }),
      new SandboxKeys([newKey]).clientKey(uid, grant),
      keys.sessionKey(uid),
      keys.secretKey(uid),
    ];
    expect(new Set(all).size).toBe(all.length);
  });

  it('has no parts that run into each other', () => {
    expect(keys.clientKey(uid, { apiKeyUid: '1/x', generation: 1 })).not.toBe(
      keys.clientKey(uid, { apiKeyUid: 'x', generation: 11 }),
    );
    expect(() => keys.clientKey(uid, { ...grant, apiKeyUid: '' })).toThrow('uid of an API key');
  });

  it('refers to its API key, and stays what it is over a rotation of the master key', () => {
    const key = keys.clientKey(uid, grant);
    expect(referenceIn(key)).toBe(sessionReferenceOf('api-key'));
    expect(new SandboxKeys([newKey, oldKey]).clientKey(uid, grant, keys.currentKeyId)).toBe(key);
    expect(key).toMatch(/^[A-Za-z0-9_-]{59}$/);
  });
});

describe('derived ids', () => {
  it('are one for each master key, the current one first', () => {
    const both = new SandboxKeys([newKey, oldKey]).derivedIds('text');
    expect(both).toEqual([
      ...new SandboxKeys([newKey]).derivedIds('text'),
      ...new SandboxKeys([oldKey]).derivedIds('text'),
    ]);
    expect(new Set([...both, ...new SandboxKeys([newKey]).derivedIds('other')]).size).toBe(3);
    for (const id of both)
      expect([/^[0-9a-f]{32}$/.test(id), isDerivedForm(id)]).toEqual([true, true]);
  });
});
