import { usePage } from '../page-state.ts';
import { clockTime } from '../times.ts';

/** One line while the stream is down. The page stays usable for reading. */
export function ConnectionLine() {
  const { stream } = usePage();
  const { isOpen, attempts } = stream.state.value;
  const news = stream.lastNews === undefined ? '' : ` Last news ${clockTime(stream.lastNews)}.`;
  return (
    <div class="connection" role="status">
      {isOpen || attempts === 0 ? '' : `No connection.${news} Attempt ${attempts}…`}
    </div>
  );
}
