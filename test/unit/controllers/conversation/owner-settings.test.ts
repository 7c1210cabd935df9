import { sealingUnder } from '../../../../src/agent/sealing.ts';
import { OwnerSettingsReader } from '../../../../src/controllers/conversation/owner-settings.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import {
  ownerSettings,
  settingsNameOf,
  type OwnerSettingsSpec,
} from '../../../../src/resources/owner-settings.ts';
import { aConversation } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { sceneKeys } from '../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { signal } = new AbortController();
const sealing = sealingUnder(sceneKeys);

/** A reader of the settings that a test stores. */
function aReader() {
  const client = new FakeKubeClient();
  const clock = new VirtualClock();
  const { logger, lines } = recordingLogger();
  const reads: string[] = [];
  client.fault = ({ verb, name = '' }) => {
    if (verb === 'get') reads.push(name);
    return undefined;
  };
  const store = (owner: string, model: string, namespace = 'default') =>
    client.put(ownerSettings, {
      apiVersion,
      kind: 'OwnerSettings',
      metadata: {
        namespace,
        name: settingsNameOf(owner),
        uid: `settings-of-${owner}`,
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '2026-03-01T12:00:00Z',
      },
      spec: { owner, model },
    });
  const reader = new OwnerSettingsReader({ client, clock, logger, sealing });
  /** The model of the settings, as the start of a conversation of this name reads it. */
  const modelFor = async (name: string, owner = 'alice', namespace = 'default') => {
    const { metadata, spec } = aConversation({ name, spec: { owner } });
    const uid = `${namespace}/${name}`;
    const read = await reader.of({ metadata: { ...metadata, namespace, uid }, spec }, signal);
    return read.model;
  };
  return { reader, clock, lines, reads, store, modelFor };
}

describe('the settings of owners', () => {
  it('are read once for the stages of a start', async () => {
    const { clock, reads, store, modelFor } = aReader();
    store('alice', 'first');
    expect([await modelFor('one'), await modelFor('one')]).toEqual(['first', 'first']);
    expect(reads).toEqual([settingsNameOf('alice')]);
    store('alice', 'second');
    await clock.advance(2_000);
    expect(await modelFor('one')).toBe('second');
  });

  it('are those of now for the next start, however soon it follows the one before', async () => {
    const { store, modelFor } = aReader();
    store('alice', 'first');
    expect(await modelFor('one')).toBe('first');
    store('alice', 'second');
    expect(await modelFor('two')).toBe('second');
  });

  it('are those of the owner of the conversation, in its namespace', async () => {
    const { store, modelFor } = aReader();
    store('alice', 'of alice');
    store('alice', 'of alice elsewhere', 'elsewhere');
    expect(await modelFor('one')).toBe('of alice');
    expect(await modelFor('two', 'bob')).toBeUndefined();
    store('bob', 'of bob');
    expect(await modelFor('three', 'bob')).toBe('of bob');
    expect(await modelFor('four', 'alice', 'elsewhere')).toBe('of alice elsewhere');
  });

  it('have the servers whose values open for their owner; the others are left out', () => {
    const { reader, lines } = aReader();
    const sealed = sealing.seal('{"authorization":"s3cret"}', {
      scope: 'mcp',
      owner: 'alice',
      name: 'docs',
    });
    const mcpServers = [{ name: 'docs', url: 'https://docs.example/mcp', sealed }];
    const serversOf = (owner: string, more: Partial<OwnerSettingsSpec> = {}) =>
      reader.mcpServersOf({ owner, mcpServers, ...more });
    expect(serversOf('alice')).toEqual([
      {
        name: 'docs',
        url: 'https://docs.example/mcp',
        transport: 'http',
        headers: { authorization: 's3cret' },
      },
    ]);
    expect(serversOf('bob')).toEqual([]);
    expect(lines.map(({ fields }) => fields)).toEqual([{ owner: 'bob', server: 'docs' }]);
  });
});
