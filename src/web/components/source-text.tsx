import { partsOf } from '../line-diff.ts';
import { InOrder } from './in-order.tsx';

/** A text of a file in the order of its characters, with a mark for each invisible one. */
export const SourceText = ({ children }: { readonly children: string }) => (
  <>
    {partsOf(children).map((part, index) =>
      index % 2 === 1 ? (
        <span key={index} class="unseen-character">
          {part}
        </span>
      ) : (
        part !== '' && <InOrder key={index}>{part}</InOrder>
      ),
    )}
  </>
);
