import { EventEmitter } from 'node:events';
import { SlowReaderGuard, type Unread } from '../../src/limits/slow-clients.ts';

const anAnswer = (writableLength: number) =>
  Object.assign(new EventEmitter(), { writableLength, destroyed: false });
type Answer = ReturnType<typeof anAnswer>;
const add = (waiting: SlowReaderGuard, answer: Answer, owner: string) =>
  waiting.add(answer as unknown as Unread, owner, () => {
    answer.destroyed = true;
    answer.emit('close');
  });

describe('answers that no client reads', () => {
  it('are kept up to a number of bytes; then the connection that has waited longest is closed', () => {
    const waiting = new SlowReaderGuard({ maxBytes: 100, maxBytesPerOwner: 100 });
    const answers = [anAnswer(40), anAnswer(40), anAnswer(40), anAnswer(90)];
    const closed = () => answers.map(({ destroyed }) => destroyed);
    for (const answer of answers.slice(0, 2)) add(waiting, answer, 'alice');
    expect(closed()).toEqual([false, false, false, false]);
    add(waiting, answers[2] ?? anAnswer(0), 'alice');
    expect(closed()).toEqual([true, false, false, false]);
    add(waiting, answers[3] ?? anAnswer(0), 'alice');
    expect(closed()).toEqual([true, true, true, false]);
    expect(waiting.bytes).toBe(90);
  });

  it("are closed at their owner's share, whatever others hold", () => {
    const waiting = new SlowReaderGuard({ maxBytes: 100, maxBytesPerOwner: 50 });
    const [first, second, third] = [anAnswer(30), anAnswer(30), anAnswer(30)];
    add(waiting, first, 'alice');
    add(waiting, second, 'bob');
    add(waiting, third, 'bob');
    expect([first, second, third].map(({ destroyed }) => destroyed)).toEqual([false, true, false]);
  });

  it('are closed of the owner that has most, where all together have too much', () => {
    const waiting = new SlowReaderGuard({ maxBytes: 100, maxBytesPerOwner: 60 });
    const [small, ...large] = [anAnswer(20), anAnswer(30), anAnswer(30)];
    add(waiting, small, 'alice');
    for (const answer of large) add(waiting, answer, 'bob');
    add(waiting, anAnswer(40), 'carol');
    expect([small, ...large].map(({ destroyed }) => destroyed)).toEqual([false, true, false]);
    expect(waiting.bytes).toBe(90);
  });

  it('count as much as waits at the moment, in an answer that is written piece by piece', () => {
    const waiting = new SlowReaderGuard();
    const answer = anAnswer(30);
    add(waiting, answer, 'alice');
    answer.writableLength = 50;
    add(waiting, answer, 'alice');
    expect(waiting.bytes).toBe(50);
    answer.emit('drain');
    expect(waiting.bytes).toBe(0);
    add(waiting, answer, 'alice');
    expect([waiting.bytes, answer.listenerCount('drain')]).toEqual([50, 1]);
    answer.emit('close');
    expect(waiting.bytes).toBe(0);
  });

  it('count no more once they are taken or their client has gone', () => {
    const waiting = new SlowReaderGuard({ maxBytes: 100, maxBytesPerOwner: 100 });
    const answer = anAnswer(60);
    add(waiting, answer, 'alice');
    answer.emit('close');
    expect(waiting.bytes).toBe(0);
    add(waiting, anAnswer(0), 'alice');
    expect(waiting.bytes).toBe(0);
  });
});
