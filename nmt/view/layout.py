"""The positions of the panels of a heatmap figure."""

from dataclasses import dataclass


@dataclass
class Layout:
    """The positions of a figure's panels, in inches from the lower left corner."""

    rows: int
    columns: int
    panel: tuple[float, float]  # the cells: width, height
    left: float  # of the target words
    top: float  # of the source words
    right: float  # of the target words on the right
    bottom: float  # of the source words below
    title_width: float  # of the longest panel title
    footer_height: float  # of caption and legend
    footer_width: float  # of the wider of them

    @property
    def pitch(self) -> tuple[float, float]:
        """The distance from one panel to the next, across and down."""
        across = self.left + max(self.panel[0] + self.right, self.title_width)
        return across, self.panel[1] + self.top + self.bottom + (0.5 if self.title_width else 0.15)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the figure, with the color bar on the right, legend and caption below."""
        across, down = self.pitch
        return max(self.columns * across + 0.8, self.footer_width), self.rows * down + self.footer_height

    def panel_rectangle(self, index: int) -> tuple[float, float, float, float]:
        """(left, bottom, width, height) of one panel's cells as fractions of the figure."""
        row, column = divmod(index, self.columns)
        x = column * self.pitch[0] + self.left
        y = (self.rows - 1 - row) * self.pitch[1] + self.footer_height + self.bottom
        width, height = self.size
        return x / width, y / height, self.panel[0] / width, self.panel[1] / height
