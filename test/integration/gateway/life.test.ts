import { kubeEvents } from '@conversation-operator/kube/core';
import { uuidOf } from '../../../src/resources/ids.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { namespace, TwoOwners } from '../../support/gateway/two-owners.ts';

const time = '2026-01-01T00:00:00Z';
const id = uuidOf('alice/lived');
const path = `/api/v1/app-conversations/${id}`;

describe('the life of a conversation', () => {
  let world: TwoOwners;
  beforeAll(async () => {
    world = await TwoOwners.start();
    await world.addPair('alice', id);
  });
  afterAll(async () => {
    await world.stop();
  });

  const get = async (target: string) => {
    const got = await world.send({
      method: 'GET',
      target,
      headers: { authorization: `Bearer ${world.keys.alice}` },
    });
    expect(got?.status).toBe(200);
    return JSON.parse(got?.body.toString() ?? '') as unknown;
  };
  const addEvent = (name: string, kind: string, uid: string) =>
    world.client.create(kubeEvents, {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name, namespace },
      involvedObject: { kind, uid, namespace },
      type: 'Normal',
      reason: 'Test',
      message: name,
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    });

  it('has the Events about it and its sandbox, and no others', async () => {
    const conversation = await world.client.get(conversations, namespace, id);
    const sandbox = await world.client.get(sandboxes, namespace, `sbx-${id}`);
    await addEvent('one', 'Conversation', conversation.metadata.uid);
    await addEvent('two', 'Sandbox', sandbox.metadata.uid);
    await addEvent('other', 'Sandbox', 'another');
    const entries = (await get(`${path}/timeline`)) as { kind: string; message: string }[];
    const events = entries.filter(({ kind }) => kind === 'event');
    expect(events.map(({ message }) => message).sort()).toEqual(['one', 'two']);
  });

  it('is shown as its resources, without the address of the pod, and with long texts shortened', async () => {
    await world.client.mergePatch(conversations, namespace, id, {
      metadata: { annotations: { long: 'x'.repeat(10_000) } },
    });
    const { namespace: shown, yaml } = (await get(`${path}/resources`)) as {
      namespace: string;
      yaml: string;
    };
    expect(shown).toBe(namespace);
    expect(yaml).toMatch(/^apiVersion: conversation-operator.dev\/v1alpha1\nkind: Conversation\n/);
    expect(yaml).toContain('---\napiVersion: conversation-operator.dev/v1alpha1\nkind: Sandbox\n');
    expect(yaml).toContain(`${'x'.repeat(4096)}… 5904 characters more`);
    expect(yaml).not.toContain(world.internals['pod IP']);
    expect(yaml).not.toContain('managedFields');
  });
});
