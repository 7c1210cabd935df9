import { SandboxKeys } from '../../../src/agent/keys.ts';

const oldKey = Buffer.alloc(32, 1);
const newKey = Buffer.alloc(32, 2);
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
    ['what only looks like it', uid, { provider: 'github/acme', repository: 'app' }, `${ticket}x`],
    ['nothing', uid, grant, ''],
    ['a later end', uid, grant, ticket.replace('1800000000', '1900000000')],
    ['an end in another form', uid, grant, ticket.replace('1800000000', '01800000000')],
  ])('is not good for %s', (_sentence, sandbox, wanted, shown) => {
    expect(keys.acceptsCloneTicket(sandbox, wanted, shown, 0)).toBe(false);
  });
});

describe('the keys of a sandbox', () => {
  it('are the same in every process', () => {
    expect(new SandboxKeys([oldKey]).sessionKey(uid)).toBe('jiRjfNsOg0d0m79MpZTbgopzaCyUIBW9VG_8oc7c_BU');
  });

  it('differ by purpose and by sandbox', () => {
    const keys = new SandboxKeys([oldKey]);
    const all = [uid, 'another'].flatMap((each) => [keys.sessionKey(each), keys.secretKey(each), keys.bootstrapKey(each)]);
    expect(new Set(all).size).toBe(6);
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

  it('are accepted under every master key, and nothing else is', () => {
    const keys = new SandboxKeys([newKey, oldKey]);
    expect(keys.acceptsSessionKey(uid, new SandboxKeys([oldKey]).sessionKey(uid))).toBe(true);
    expect(keys.acceptsSessionKey(uid, new SandboxKeys([newKey]).sessionKey(uid))).toBe(true);
    expect(keys.acceptsSessionKey(uid, keys.secretKey(uid))).toBe(false);
    expect(keys.acceptsSessionKey('another', keys.sessionKey(uid))).toBe(false);
    expect(keys.acceptsSessionKey(uid, '')).toBe(false);
  });

  it.each([
    ['no master key', () => new SandboxKeys([]), 'at least one'],
    ['a short master key', () => new SandboxKeys([Buffer.alloc(16)]), 'at least 32 bytes'],
    ['an empty uid', () => new SandboxKeys([oldKey]).sessionKey(''), 'uid'],
    ['a master key that is gone', () => new SandboxKeys([newKey]).secretKey(uid, new SandboxKeys([oldKey]).currentKeyId), 'not among'],
  ])('are refused for %s', (_name, act, message) => {
    expect(act).toThrow(message);
  });
});
