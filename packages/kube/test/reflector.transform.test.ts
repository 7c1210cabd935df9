import { Reflector } from '../src/reflector.ts';
import type { KubeObject } from '../src/object.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';
import { ScriptedServer } from './scripted-server.ts';
import { things, type Thing } from './things.ts';

interface SmallThing extends KubeObject {
  readonly color: string;
}

/** A reflector whose store holds only the first color of each thing. */
function aReflector() {
  const clock = new VirtualClock();
  const server = new ScriptedServer(clock);
  const transformed: string[] = [];
  const reflector = new Reflector({
    client: server.client,
    resource: things,
    transform: ({ apiVersion, kind, metadata, spec }: Thing): SmallThing => {
      transformed.push(metadata.name);
      return { apiVersion, kind, metadata, color: spec.colors[0] ?? '' };
    },
    indexers: { color: ({ color }: SmallThing) => [color] },
    clock,
    random: () => 0.5,
    logger: silentLogger,
  });
  return { clock, server, reflector, transformed };
}

describe('a reflector with a transform', () => {
  it('holds, indexes and reports what the transform has made, of lists and of watches', async () => {
    const { clock, server, reflector } = aReflector();
    const reported: string[] = [];
    reflector.addHandler({
      added: ({ metadata, color }) => reported.push(`added ${metadata.name} ${color}`),
      updated: ({ metadata, color }, old) =>
        reported.push(`updated ${metadata.name} ${old.color} ${color}`),
      deleted: ({ metadata, color }) => reported.push(`deleted ${metadata.name} ${color}`),
    });
    server.put('listed', { colors: ['red'] });
    reflector.start();
    await clock.settle();
    server.put('watched', { colors: ['blue'] });
    server.put('listed', { colors: ['blue', 'red'] });
    await clock.settle();
    expect(reflector.store.byIndex('color', 'blue').map(({ metadata }) => metadata.name)).toEqual([
      'watched',
      'listed',
    ]);
    expect(reflector.store.get('default', 'listed')).not.toHaveProperty('spec');
    server.delete('listed');
    await clock.settle();
    expect(reported).toEqual([
      'added listed red',
      'added watched blue',
      'updated listed red blue',
      'deleted listed blue',
    ]);
    await reflector.stop();
  });

  it('does not transform what its schema refuses', async () => {
    const { clock, server, reflector, transformed } = aReflector();
    server.put('wrong', { valid: false });
    server.put('right');
    reflector.start();
    await clock.settle();
    server.put('wrong too', { valid: false });
    await clock.settle();
    expect(transformed).toEqual(['right']);
    await reflector.stop();
  });
});
