import { entryIdOf } from '../../../src/web/event-log.ts';
import { closestPlace, hitIn, patternOf, surroundingsIn } from '../../../src/web/hit.ts';
import { outcomeOf } from '../../../src/sentences/sentences.ts';

const message = (text: string) => ({
  kind: 'MessageEvent',
  id: 'm',
  source: 'agent',
  llm_message: { role: 'agent', content: [{ type: 'text', text }] },
});
const call = (id: string, command: string) => ({
  kind: 'ActionEvent',
  id,
  tool_name: 'terminal',
  tool_call_id: `call-${id}`,
  action: { kind: 'TerminalAction', command },
});
const result = (id: string, text: string) => ({
  kind: 'ObservationEvent',
  id: `${id}-result`,
  tool_call_id: `call-${id}`,
  observation: { content: [{ type: 'text', text }] },
});

describe('a text in an event', () => {
  it.each<[string, object, string, string | undefined]>([
    ['a message, whatever its capitals', message('Fix the LOGIN page'), 'login', 'LOGIN'],
    ['a command', call('1', 'npm test'), 'NPM', 'npm'],
    ['an output', result('1', 'exit 3'), 'exit 3', 'exit 3'],
    ['signs of patterns as they are', message('a+b(c)[d]'), '+b(c)[d]', '+b(c)[d]'],
    ['no pattern', message('abc'), 'a.c', undefined],
    ['nothing that only programs read', message('x'), 'MessageEvent', undefined],
    [
      'nothing of an event without an entry',
      { kind: 'ConversationStateUpdateEvent', id: 's', key: 'stats', value: 'needle' },
      'needle',
      undefined,
    ],
  ])('is found in %s', (_name, event, text, match) => {
    expect(hitIn({ ...event }, patternOf(text))?.match).toBe(match);
  });

  it('has its surroundings, with a mark where these continue', () => {
    const long = `${'a'.repeat(100)}needle${'b'.repeat(100)}`;
    expect(hitIn(message(long), patternOf('needle'))).toEqual({
      id: 'm',
      match: 'needle',
      isShown: true,
      before: `…${'a'.repeat(60)}`,
      after: `${'b'.repeat(60)}…`,
    });
  });

  it('is found beyond what its entry shows, and not in an image', () => {
    const long = message(`${'x'.repeat(30_000)} needle`);
    expect(hitIn(long, patternOf('needle'))?.isShown).toBe(false);
    const images = { image_urls: ['data:image/png;base64,needle'] };
    const image = { llm_message: { content: [{ text: 'x'.repeat(30_000) }, images] } };
    expect(hitIn({ ...long, ...image }, patternOf('needle'))).toBeUndefined();
  });
});

it.each([
  ['m', 'm'],
  ['1', '1'],
  ['1-result', '1'],
  // A state that only programs read is at the entry before it.
  ['s', '2'],
])('goes for the event %s to the entry %s', (event, entry) => {
  const state = { kind: 'ConversationStateUpdateEvent', id: 's', key: 'stats', value: '1' };
  const events = [message('a'), call('1', 'ls'), call('2', 'ls'), state, result('1', 'x')];
  expect(entryIdOf(events, event)).toBe(entry);
});

it.each([
  ['recorded', null, true, 'Stored. The agent gets it in a moment.'],
  ['recorded', null, false, 'Stored. The sandbox resumes and the agent gets it.'],
  ['recorded', 'The agent has to ask again.', false, 'Stored. The agent has to ask again.'],
  ['delivered', null, true, 'The agent has your answer.'],
] as const)('says what becomes of an answer that is %s (%s, %s)', (...row) => {
  const [state, notice, isRunning, words] = row;
  expect(outcomeOf({ state, notice }, { isRunning })).toBe(words);
});

describe('the surroundings of a text', () => {
  it('choose the place that is meant, whatever its white space', () => {
    const places = [
      { before: 'echo "will ', after: '" # twice' },
      { before: 'line 301: we will\n', after: ' the upload' },
      { before: 'we will ', after: ' later' },
    ];
    const near = surroundingsIn('… line 301: we will RETRY the upload …', 'retry');
    expect(near).toEqual({ before: '… line 301: we will ', after: ' the upload …' });
    expect(closestPlace(near, places)).toBe(1);
    expect(closestPlace({ before: '', after: '' }, places)).toBe(0);
    expect(closestPlace(near, [])).toBe(-1);
  });

  it('are found for words between which there is other white space', () => {
    expect(surroundingsIn('a fix (it) b', 'Fix\n(it)')).toEqual({ before: 'a ', after: ' b' });
    expect(surroundingsIn('nothing', 'else')).toEqual({ before: '', after: '' });
  });
});
