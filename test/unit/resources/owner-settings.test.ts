import {
  ownerSettings,
  settingsNameOf,
  settingsOf,
} from '../../../src/resources/owner-settings.ts';

const owner = 'alice@example.com';
const object = {
  metadata: {
    name: settingsNameOf(owner),
    namespace: 'default',
    uid: 'u',
    generation: 1,
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
  },
  spec: { owner },
};

it('the name of settings is a DNS label, and another one for each owner', () => {
  expect(settingsNameOf(owner)).toMatch(/^owner-[0-9a-f]{40}$/);
  expect(settingsNameOf('Alice@example.com')).not.toBe(settingsNameOf(owner));
});

describe('an object counts as the settings of an owner', () => {
  it.each([
    ['with the owner and the name that follows from it', object, true],
    ['of another owner', { ...object, spec: { owner: 'bob' } }, false],
    ['with another name', { ...object, metadata: { ...object.metadata, name: 'mine' } }, false],
    [
      'that is being deleted',
      { ...object, metadata: { ...object.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } },
      false,
    ],
    ['that does not exist', undefined, false],
  ])('%s', (_sentence, candidate, counts) => {
    expect(settingsOf(owner, candidate)).toBe(counts ? object.spec : undefined);
  });
});

it('caches accept settings of the expected form alone', () => {
  expect(ownerSettings.accepts?.({ spec: { owner, secrets: [] } })).toBe(true);
  expect(ownerSettings.accepts?.({ spec: { owner, secrets: [{ name: 1 }] } })).toBe(false);
});
