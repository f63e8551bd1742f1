//! Text for a page: captures are untrusted, so none of their text is markup.

/// A page under construction. Markup is written in the program. Everything else goes through `text`.
#[derive(Debug, Default)]
pub struct HtmlPage(String);

impl HtmlPage {
    /// Fixed markup.
    pub fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0 += markup;
        self
    }

    /// Untrusted text, in an element or in an attribute between double quotes.
    pub fn text(&mut self, text: &str) -> &mut Self {
        for char in text.chars() {
            match char {
                '&' => self.0 += "&amp;",
                '<' => self.0 += "&lt;",
                '>' => self.0 += "&gt;",
                '"' => self.0 += "&quot;",
                '\'' => self.0 += "&#39;",
                // Control characters and marks of the reading direction would change the display.
                char if is_hidden(char) => self.0.push('\u{fffd}'),
                char => self.0.push(char),
            }
        }
        self
    }

    /// A number.
    pub fn number(&mut self, number: impl Into<f64>) -> &mut Self {
        let number: f64 = number.into();
        self.0 += short(&format!("{number:.3}"));
        self
    }

    /// A number as a part of one, in percent: for widths and positions in a drawing.
    pub fn percent(&mut self, share: f64) -> &mut Self {
        self.0 += short(&format!("{:.2}", share.clamp(0.0, 1.0) * 100.0));
        self.0.push('%');
        self
    }

    /// The class that colours an element by this part of one, in twenty steps.
    pub fn heat(&mut self, share: f64) -> &mut Self {
        let step = (share.clamp(0.0, 1.0) * 20.0).ceil();
        self.0.extend([format!("h{step:.0}")]);
        self
    }

    /// A drawing that has been escaped already.
    pub fn drawing(&mut self, svg: &str) -> &mut Self {
        self.0 += svg;
        self
    }

    /// Another piece of the page.
    pub fn piece(&mut self, piece: &Self) -> &mut Self {
        self.0 += &piece.0;
        self
    }

    /// The finished page.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A number without zeros behind its point.
fn short(number: &str) -> &str {
    number.trim_end_matches('0').trim_end_matches('.')
}

/// True for a character with an effect instead of a glyph.
pub fn is_hidden(char: char) -> bool {
    char.is_control() && !matches!(char, '\n' | '\t')
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_leave_the_picture() {
        let mut html = HtmlPage::default();
        html.percent(0.123_45).markup(" ").percent(7.0).markup(" ").heat(0.001).markup(" ").heat(-1.0);
        assert_eq!(html.finish(), "12.35% 100% h1 h0");
    }

    #[test]
    fn nothing_becomes_markup() {
        let mut html = HtmlPage::default();
        html.text("</title><script>alert('1')</script>\" onload=\"x&y\u{1b}\u{202e}");
        let expected = "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;y\u{fffd}\u{fffd}";
        assert_eq!(html.finish(), expected);
    }
}
