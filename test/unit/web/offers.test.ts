import { offersOf } from '../../../src/web/offers.ts';
import type { Facts } from '../../../src/sentences/facts.ts';
import { asking, running, started, withSandbox } from '../sentences/facts.ts';

describe('the actions of a conversation', () => {
  it.each<[string, Facts, readonly string[]]>([
    ['pause what runs', running({ execution_status: 'finished' }), ['Pause']],
    ['stop a run as well', running({ execution_status: 'running' }), ['Pause', 'Stop']],
    ['answer a question first', running(asking('ls')), ['Answer', 'Pause']],
    [
      'answer before they resume',
      withSandbox('PAUSED', 'user', null, asking('ls')),
      ['Answer', 'Resume'],
    ],
    ['start a failed start again', started({ status: 'ERROR' }), ['Start again']],
    ['are none for what is gone, with its start', withSandbox('MISSING', 'deleted'), []],
    [
      'are none where the start has failed, and is gone',
      { ...withSandbox('ERROR', 'failed'), sandbox: undefined },
      [],
    ],
    ['resume a sandbox that has failed', withSandbox('ERROR', 'failed'), ['Try again']],
  ])('%s', (_what, facts, labels) => {
    expect(offersOf(facts).map(({ label }) => label)).toEqual(labels);
  });
});
