import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { WaitingAnswers } from '../../../src/gateway/limits/waiting-answers.ts';

const anAnswer = (writableLength: number) => {
  const response = Object.assign(new EventEmitter(), {
    writableLength,
    destroyed: false,
    req: {
      socket: {
        destroy: () => {
          response.destroyed = true;
          response.emit('close');
        },
      },
    },
  });
  return response;
};
const as = (answer: ReturnType<typeof anAnswer>) => answer as unknown as ServerResponse;

describe('answers that nobody takes', () => {
  it('are kept up to so many bytes; then who has waited longest is cut off', () => {
    const waiting = new WaitingAnswers({ maxBytes: 100, maxBytesPerOwner: 100 });
    const answers = [anAnswer(40), anAnswer(40), anAnswer(40), anAnswer(90)];
    const cut = () => answers.map(({ destroyed }) => destroyed);
    for (const answer of answers.slice(0, 2)) waiting.add(as(answer), 'alice');
    expect(cut()).toEqual([false, false, false, false]);
    waiting.add(as(answers[2] ?? anAnswer(0)), 'alice');
    expect(cut()).toEqual([true, false, false, false]);
    waiting.add(as(answers[3] ?? anAnswer(0)), 'alice');
    expect(cut()).toEqual([true, true, true, false]);
    expect(waiting.bytes).toBe(90);
  });

  it("are cut off at their owner's share, whatever others hold", () => {
    const waiting = new WaitingAnswers({ maxBytes: 100, maxBytesPerOwner: 50 });
    const [first, second, third] = [anAnswer(30), anAnswer(30), anAnswer(30)];
    waiting.add(as(first), 'alice');
    waiting.add(as(second), 'bob');
    waiting.add(as(third), 'bob');
    expect([first, second, third].map(({ destroyed }) => destroyed)).toEqual([false, true, false]);
  });

  it('are cut off of the owner that has most, where all together have too much', () => {
    const waiting = new WaitingAnswers({ maxBytes: 100, maxBytesPerOwner: 60 });
    const [small, ...large] = [anAnswer(20), anAnswer(30), anAnswer(30)];
    waiting.add(as(small), 'alice');
    for (const answer of large) waiting.add(as(answer), 'bob');
    waiting.add(as(anAnswer(40)), 'carol');
    expect([small, ...large].map(({ destroyed }) => destroyed)).toEqual([false, true, false]);
    expect(waiting.bytes).toBe(90);
  });

  it('count as much as waits at the moment, in an answer that is written piece by piece', () => {
    const waiting = new WaitingAnswers();
    const answer = anAnswer(30);
    waiting.add(as(answer), 'alice');
    answer.writableLength = 50;
    waiting.add(as(answer), 'alice');
    expect(waiting.bytes).toBe(50);
    answer.emit('drain');
    expect(waiting.bytes).toBe(0);
    waiting.add(as(answer), 'alice');
    expect([waiting.bytes, answer.listenerCount('drain')]).toEqual([50, 1]);
    answer.emit('close');
    expect(waiting.bytes).toBe(0);
  });

  it('count no more once they are taken or their client has gone', () => {
    const waiting = new WaitingAnswers({ maxBytes: 100, maxBytesPerOwner: 100 });
    const answer = anAnswer(60);
    waiting.add(as(answer), 'alice');
    answer.emit('close');
    expect(waiting.bytes).toBe(0);
    waiting.add(as(anAnswer(0)), 'alice');
    expect(waiting.bytes).toBe(0);
  });
});
