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
    const waiting = new WaitingAnswers({ maxBytes: 100 });
    const answers = [anAnswer(40), anAnswer(40), anAnswer(40), anAnswer(90)];
    const cut = () => answers.map(({ destroyed }) => destroyed);
    for (const answer of answers.slice(0, 2)) waiting.add(as(answer));
    expect(cut()).toEqual([false, false, false, false]);
    waiting.add(as(answers[2] ?? anAnswer(0)));
    expect(cut()).toEqual([true, false, false, false]);
    waiting.add(as(answers[3] ?? anAnswer(0)));
    expect(cut()).toEqual([true, true, true, false]);
    expect(waiting.bytes).toBe(90);
  });

  it('count no more once they are taken or their client has gone', () => {
    const waiting = new WaitingAnswers({ maxBytes: 100 });
    const answer = anAnswer(60);
    waiting.add(as(answer));
    answer.emit('close');
    expect(waiting.bytes).toBe(0);
    waiting.add(as(anAnswer(0)));
    expect(waiting.bytes).toBe(0);
  });
});
