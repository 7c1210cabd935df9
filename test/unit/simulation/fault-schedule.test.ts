import { FaultSchedule } from '../../simulation/fault-schedule.ts';
import { Random } from '../../simulation/random.ts';

const drawn = (names: readonly string[]) => {
  const schedule = new FaultSchedule(new Random('seed'));
  return names.map((name) => [name, schedule.nextRequest(name).between(0, 1)] as const);
};

describe('the faults of a simulated request', () => {
  it('stay as they are when another request is made more or less', () => {
    const few = drawn(['PUT a', 'GET b', 'PUT a']);
    const more = drawn(['GET c', 'PUT a', 'GET c', 'GET b', 'PUT a']);
    expect(more.filter(([name]) => name !== 'GET c')).toEqual(few);
  });

  it('differ from one request to the next of the same name', () => {
    const [one, other] = drawn(['PUT a', 'PUT a']);
    expect(one).not.toEqual(other);
  });
});
