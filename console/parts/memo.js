// A component that renders again only for other props: preact/compat has one, and much else.
import { Component, h } from 'preact';

export function memo(render) {
  const Inner = (props) => render(props);
  return class extends Component {
    shouldComponentUpdate(next) {
      return Object.keys(next).some((name) => next[name] !== this.props[name]);
    }

    render(props) {
      return h(Inner, props);
    }
  };
}
