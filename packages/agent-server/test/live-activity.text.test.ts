import { jest } from '@jest/globals';
import { LiveText, type StreamingDelta } from '../src/live-activity.ts';
import { needlesOf } from '../src/mask.ts';

describe('the text that an agent writes now', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  const listening = () => {
    const live = new LiveText();
    const deltas: StreamingDelta[] = [];
    const unsubscribe = live.subscribe((delta) => deltas.push(delta));
    const texts = () =>
      deltas.map(({ content, reasoning_content }) => [content, reasoning_content]);
    return { live, deltas, texts, unsubscribe };
  };

  it('reaches a client in pieces, one in 250 ms', () => {
    const { live, deltas, texts } = listening();
    for (const text of ['a', 'b', 'c']) live.say({ kind: 'message', text });
    live.say({ kind: 'thought', text: 'x' });
    jest.advanceTimersByTime(249);
    expect(deltas).toEqual([]);
    jest.advanceTimersByTime(1);
    live.say({ kind: 'message', text: 'd' });
    jest.advanceTimersByTime(1_000);
    expect(texts()).toEqual([
      ['abc', 'x'],
      ['d', null],
    ]);
    expect(deltas[0]).toMatchObject({ kind: 'StreamingDeltaEvent', source: 'agent' });
  });

  it('waits 250 ms from its first piece on, however many follow', () => {
    const { live, texts } = listening();
    for (let piece = 0; piece < 10; piece++) {
      live.say({ kind: 'message', text: String(piece) });
      jest.advanceTimersByTime(100);
    }
    expect(texts()).toEqual([
      ['012', null],
      ['345', null],
      ['678', null],
    ]);
    jest.advanceTimersByTime(250);
    expect(texts().at(-1)).toEqual(['9', null]);
  });

  it('is sent before its stored event, and dropped without one', () => {
    const { live, texts } = listening();
    live.say({ kind: 'message', text: 'a' });
    live.flush();
    live.say({ kind: 'message', text: 'b' });
    live.drop();
    jest.advanceTimersByTime(1_000);
    expect(texts()).toEqual([['a', null]]);
  });

  it('is bounded', () => {
    const { live, texts } = listening();
    for (let index = 0; index < 3; index++) live.say({ kind: 'message', text: 'x'.repeat(60_000) });
    live.flush();
    expect(texts()[0]?.[0]).toHaveLength(100_000);
  });

  it('shows no secret that the pieces on both sides of a thought form', () => {
    const live = new LiveText(() => needlesOf(['s3cret']));
    const deltas: StreamingDelta[] = [];
    live.subscribe((delta) => deltas.push(delta));
    live.say({ kind: 'message', text: 's3c' });
    live.say({ kind: 'thought', text: 'x' });
    live.say({ kind: 'message', text: 'ret' });
    live.flush();
    expect(deltas).toMatchObject([{ content: '<secret-hidden>', reasoning_content: 'x' }]);
  });

  it('costs nothing without a client', () => {
    const { live, deltas, unsubscribe } = listening();
    live.say({ kind: 'message', text: 'a' });
    unsubscribe();
    live.say({ kind: 'message', text: 'b' });
    expect(jest.getTimerCount()).toBe(0);
    expect(deltas).toEqual([]);
  });
});
