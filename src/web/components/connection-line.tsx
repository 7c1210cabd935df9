import { usePage } from '../page-state.ts';
import { exact } from '../times.ts';

/** One line while the stream is down. The page stays usable for reading. */
export function ConnectionLine() {
  const { stream } = usePage();
  const { isOpen, attempts } = stream.state.value;
  const text =
    isOpen || attempts === 0
      ? ''
      : `No connection. ${stream.lastNews === undefined ? '' : `Last news: ${exact(new Date(stream.lastNews).toISOString())}. `}Attempt ${attempts}…`;
  return (
    <div class={text === '' ? 'unseen' : 'connection'} role="status">
      {text}
    </div>
  );
}
