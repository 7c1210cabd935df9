import { LiveActivity, LiveTail, maxTailCharacters } from '../src/live-activity.ts';
import { marker, maskText, needlesOf, noNeedles } from '../src/mask.ts';

const secret = 'correct-horse-battery';
const needles = needlesOf([secret]);

describe('the tail of a text that grows', () => {
  it('is read in parts from a place on', () => {
    const tail = new LiveTail();
    tail.push('one ');
    expect(tail.read(0, noNeedles)).toEqual({ from: 0, end: 4, text: 'one ' });
    tail.push('two');
    expect(tail.read(4, noNeedles)).toEqual({ from: 4, end: 7, text: 'two' });
    expect(tail.read(7, noNeedles)).toEqual({ from: 7, end: 7, text: '' });
  });

  it.each([-1, 8, 1e9, Number.NaN])('is read from its beginning after %d', (after) => {
    const tail = new LiveTail();
    tail.push('a text');
    expect(tail.read(after, noNeedles)).toEqual({ from: 0, end: 6, text: 'a text' });
  });

  it('is bounded, and says where it begins', () => {
    const tail = new LiveTail();
    for (let line = 0; line < 100_000; line++) tail.push(`line ${line}\n`);
    const { from, end, text } = tail.read(0, noNeedles);
    expect(text.length).toBe(maxTailCharacters);
    expect(end - from).toBe(maxTailCharacters);
    expect(text.endsWith('line 99999\n')).toBe(true);
  });

  it('is bounded for one chunk that is too large', () => {
    const tail = new LiveTail();
    tail.push('x'.repeat(10 * maxTailCharacters));
    expect(tail.read(0, noNeedles)).toMatchObject({
      from: 9 * maxTailCharacters,
      end: 10 * maxTailCharacters,
    });
  });

  // Each reader asks after each chunk, and their parts joined have what a whole read has.
  it.each(Array.from({ length: secret.length - 1 }, (_, index) => index + 1))(
    'hides a secret in pieces of %d characters',
    (size) => {
      const tail = new LiveTail();
      const text = `before ${secret} after ${secret}${secret} end`;
      let shown = '';
      let after = 0;
      for (let at = 0; at < text.length; at += size) {
        tail.push(text.slice(at, at + size));
        const part = tail.read(after, needles);
        expect(part.from).toBe(after);
        shown += part.text;
        after = part.end;
      }
      expect(shown).toBe(maskText(text, needles));
    },
  );

  it('hides the rest of a secret whose beginning is no longer kept', () => {
    const tail = new LiveTail();
    tail.push(secret + 'x'.repeat(maxTailCharacters - 5));
    expect(tail.read(0, needles).text).toBe(marker + 'x'.repeat(maxTailCharacters - 5));
  });

  it('holds back what may be the beginning of a secret', () => {
    const tail = new LiveTail();
    tail.push('key: corr');
    expect(tail.read(0, needles)).toEqual({ from: 0, end: 5, text: 'key: ' });
    tail.push('idor');
    expect(tail.read(5, needles)).toEqual({ from: 5, end: 13, text: 'corridor' });
  });

  it('shows nothing of a secret to a reader that asks from its middle', () => {
    const tail = new LiveTail();
    tail.push(`a ${secret} b`);
    for (let after = 3; after < 2 + secret.length; after++)
      expect(tail.read(after, needles).text).toBe(' b');
  });
});

describe('the activity of a conversation', () => {
  const read = (activity: LiveActivity, cursor = '') => activity.read(cursor, noNeedles);

  it('has the output of a command until an event has it', () => {
    const activity = new LiveActivity();
    const push = activity.begin('call-1');
    push(Buffer.from('hé'), 'stdout');
    const first = read(activity);
    expect(first.items).toMatchObject([{ kind: 'output', tool_call_id: 'call-1', text: 'hé' }]);
    push(Buffer.from('llo'), 'stdout');
    expect(read(activity, first.cursor).items).toMatchObject([{ from: 2, text: 'llo' }]);
    const head = { id: 'e', timestamp: '' };
    activity.apply({
      ...head,
      kind: 'AgentErrorEvent',
      source: 'agent',
      error: 'killed',
      tool_name: 'terminal',
      tool_call_id: 'call-1',
    });
    expect(read(activity)).toEqual({ items: [], cursor: '' });
  });

  it('has no half of a character', () => {
    const activity = new LiveActivity();
    const push = activity.begin('call-1');
    const bytes = Buffer.from('€');
    push(bytes.subarray(0, 1), 'stdout');
    expect(read(activity).items).toMatchObject([{ text: '' }]);
    push(bytes.subarray(1), 'stdout');
    expect(read(activity).items).toMatchObject([{ text: '€' }]);
  });

  it('has the characters of each stream, also where the other one is between their bytes', () => {
    const activity = new LiveActivity();
    const push = activity.begin('call-1');
    const bytes = Buffer.from('€');
    push(bytes.subarray(0, 1), 'stdout');
    push(Buffer.from('warning '), 'stderr');
    push(bytes.subarray(1), 'stdout');
    expect(read(activity).items).toMatchObject([{ text: 'warning €' }]);
  });

  it('continues a whole text that grows, and begins again with another one', () => {
    const activity = new LiveActivity();
    activity.replace('call-1', 'one\n');
    const first = read(activity);
    activity.replace('call-1', 'one\ntwo\n');
    const second = read(activity, first.cursor);
    expect(second.items).toMatchObject([{ id: first.items[0]?.id, from: 4, text: 'two\n' }]);
    activity.replace('call-1', 'other');
    const [item] = read(activity, second.cursor).items;
    expect(item).toMatchObject({ from: 0, text: 'other' });
    expect(item?.id).not.toBe(first.items[0]?.id);
  });

  it('hides the end of a secret where a whole text has lost its beginning', () => {
    const activity = new LiveActivity();
    activity.replace('call-1', `a ${secret}`);
    activity.replace('call-1', `${secret.slice(4)} and more`);
    const [item] = activity.read('', needles).items;
    expect(item?.text).toBe(`${marker} and more`);
  });

  it('has the text that the agent writes, by its kind', () => {
    const activity = new LiveActivity();
    activity.say({ kind: 'thought', text: 'Hm' });
    activity.say({ kind: 'thought', text: 'm.' });
    expect(read(activity).items).toMatchObject([{ kind: 'thought', text: 'Hmm.' }]);
    activity.say({ kind: 'message', text: 'Yes' });
    expect(read(activity).items).toMatchObject([{ kind: 'message', text: 'Yes' }]);
    activity.endText();
    expect(read(activity).items).toEqual([]);
  });

  it('has a bounded number of outputs, the last ones', () => {
    const activity = new LiveActivity();
    for (let call = 0; call < 100; call++) activity.begin(`call-${call}`);
    expect(read(activity).items).toHaveLength(8);
    expect(read(activity).items.at(-1)).toMatchObject({ tool_call_id: 'call-99' });
  });

  it.each(['x', ':', 'a:b', 'a:-1', 'a:1e99', ','.repeat(1000)])(
    'is read from the beginning after the cursor %.10s',
    (cursor) => {
      const activity = new LiveActivity();
      activity.begin('call-1')(Buffer.from('text'), 'stdout');
      expect(read(activity, cursor).items).toMatchObject([{ from: 0, text: 'text' }]);
    },
  );
});
