import fc from 'fast-check';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { sealingUnder, type SealContext } from '../../../src/agent/sealing.ts';
import { maxSealedLength, maxSecretBytes } from '../../../src/resources/owner-settings.ts';

const oldKey = Buffer.alloc(32, 1);
const newKey = Buffer.alloc(32, 2);
const under = (...masterKeys: readonly Buffer[]) => sealingUnder(new SandboxKeys(masterKeys));
const sealing = under(newKey);

const plain = () => fc.string({ unit: 'grapheme', minLength: 1, maxLength: 64 });
const word = () => fc.string({ unit: 'grapheme', maxLength: 16 });
const place = (): fc.Arbitrary<SealContext> =>
  fc.oneof(
    fc.record({ scope: fc.constantFrom('secret', 'mcp'), owner: word(), name: word() }),
    fc.record({
      scope: fc.constant('start' as const),
      owner: word(),
      conversation: word(),
      name: word(),
    }),
  );
const context: SealContext = { scope: 'secret', owner: 'alice', name: 'TOKEN' };

describe('a sealed text', () => {
  it('opens in its place', () => {
    fc.assert(
      fc.property(plain(), place(), (text, where) => {
        expect(sealing.open(sealing.seal(text, where), where)).toBe(text);
      }),
    );
  });

  it('stays closed in every other place', () => {
    fc.assert(
      fc.property(plain(), place(), place(), (text, where, elsewhere) => {
        fc.pre(JSON.stringify(where) !== JSON.stringify(elsewhere));
        expect(sealing.open(sealing.seal(text, where), elsewhere)).toBeUndefined();
      }),
    );
  });

  it('stays closed after a change of any character', () => {
    const sealed = sealing.seal('hunter2', context);
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.';
    fc.assert(
      fc.property(
        fc.nat(sealed.length - 1),
        fc.constantFrom(...alphabet.split(/(?:)/)),
        (index, character) => {
          fc.pre(sealed[index] !== character);
          const changed = `${sealed.slice(0, index)}${character}${sealed.slice(index + 1)}`;
          expect(sealing.open(changed, context)).toBeUndefined();
        },
      ),
    );
  });

  it('never opens by chance, and hostile texts throw nothing', () => {
    const [version = '', keyId = ''] = sealing.seal('x', context).split('.');
    const part = fc.oneof(
      fc.constantFrom(version, keyId, 'v2', ''),
      fc.base64String().map((text) => text.replaceAll(/[+/=]/g, '-')),
      fc.string({ unit: 'binary' }),
    );
    const text = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 2000 }),
      fc.array(part, { maxLength: 6 }).map((parts) => parts.join('.')),
      fc.array(part, { maxLength: 6 }).map((parts) => [version, keyId, ...parts].join('.')),
    );
    fc.assert(fc.property(text, (each) => expect(sealing.open(each, context)).toBeUndefined()));
    expect(sealing.open('A'.repeat(10_000_000), context)).toBeUndefined();
  });

  it('is another one each time, and shows nothing of the text', () => {
    const one = sealing.seal('hunter2-hunter2', context);
    expect(sealing.seal('hunter2-hunter2', context)).not.toBe(one);
    expect(one).toMatch(/^v1\.[0-9a-f]{12}\.[\w-]{16}\.[\w-]{42}$/);
    expect(one).not.toContain(Buffer.from('hunter2').toString('base64url'));
  });

  it('of the maximum length fits into the field', () => {
    const sealed = sealing.seal('é'.repeat(maxSecretBytes / 2), context);
    expect(sealed.length).toBeLessThanOrEqual(maxSealedLength);
    expect(sealing.open(sealed, context)).toHaveLength(maxSecretBytes / 2);
  });

  it('opens as long as its master key is among those given, and is current under the first', () => {
    const sealed = under(oldKey).seal('hunter2', context);
    expect(under(newKey, oldKey).open(sealed, context)).toBe('hunter2');
    expect(under(newKey, oldKey).isCurrent(sealed)).toBe(false);
    expect(under(oldKey, newKey).isCurrent(sealed)).toBe(true);
    expect(under(newKey).open(sealed, context)).toBeUndefined();
  });

  it('follows a replacement of the master keys, which listeners learn of', () => {
    const keys = new SandboxKeys([oldKey]);
    const following = sealingUnder(keys);
    const sealed = following.seal('hunter2', context);
    let replacements = 0;
    const remove = keys.onReplaced(() => (replacements += 1));
    keys.replace([newKey, oldKey]);
    expect(replacements).toBe(1);
    expect(following.isCurrent(sealed)).toBe(false);
    expect(following.open(sealed, context)).toBe('hunter2');
    remove();
    keys.replace([newKey]);
    expect(replacements).toBe(1);
    expect(following.open(sealed, context)).toBeUndefined();
  });
});

describe('the secrets token', () => {
  const keys = new SandboxKeys([newKey, oldKey]);
  it('is good for its sandbox under every master key, and for no other', () => {
    const token = new SandboxKeys([oldKey]).secretsToken('one');
    expect(keys.acceptsSecretsToken('one', token)).toBe(true);
    expect(keys.acceptsSecretsToken('one', keys.secretsToken('one'))).toBe(true);
    expect(keys.acceptsSecretsToken('other', token)).toBe(false);
    expect(new SandboxKeys([newKey]).acceptsSecretsToken('one', token)).toBe(false);
    expect(keys.acceptsSecretsToken('one', '')).toBe(false);
    expect(keys.acceptsGitToken('one', token)).toBe(false);
  });
});

describe('the models token', () => {
  const keys = new SandboxKeys([newKey, oldKey]);
  it('is good for its sandbox and conversation under every master key, and for no other', () => {
    const token = new SandboxKeys([oldKey]).modelsToken('one', 'c1');
    expect(keys.acceptsModelsToken('one', 'c1', token)).toBe(true);
    expect(keys.acceptsModelsToken('one', 'c1', keys.modelsToken('one', 'c1'))).toBe(true);
    expect(keys.acceptsModelsToken('one', 'c2', token)).toBe(false);
    expect(keys.acceptsModelsToken('other', 'c1', token)).toBe(false);
    expect(new SandboxKeys([newKey]).acceptsModelsToken('one', 'c1', token)).toBe(false);
    expect(keys.acceptsModelsToken('one', 'c1', '')).toBe(false);
    expect(keys.acceptsSecretsToken('one', token)).toBe(false);
    expect(() => keys.modelsToken('one', '')).toThrow('id of a conversation');
  });
});

describe('the MACs of the secrets of a start', () => {
  it('begin with that of the current master key, and keep those of earlier ones', () => {
    const [old] = new SandboxKeys([oldKey]).startSecretsMacs('text');
    expect(new SandboxKeys([newKey, oldKey]).startSecretsMacs('text')[1]).toBe(old);
    expect(new SandboxKeys([oldKey]).startSecretsMacs('other')[0]).not.toBe(old);
  });
});
